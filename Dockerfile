# cropseek on a CPU, for every system that the server's wheel does not fit.
#
#   docker build --target cpu -t cropseek:cpu .
#   docker run --shm-size=1g -p 50051:50051 -v cropseek-data:/data cropseek:cpu
#
# The GPU target, on NVIDIA's tritonserver image, comes with the GPU profiles.

FROM python:3.11-slim-bookworm AS wheel
WORKDIR /src
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY service service
COPY export export
COPY model_repository model_repository
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /dist .

FROM python:3.11-slim-bookworm AS cpu
COPY requirements.lock /tmp/requirements.lock
COPY --from=wheel /dist /dist
# The lock file holds the versions; of it only what the wheel asks for is installed.
RUN pip install --no-cache-dir --constraint /tmp/requirements.lock /dist/*.whl \
    && rm -r /dist /tmp/requirements.lock \
    && useradd --create-home --uid 1000 cropseek \
    && install -d -o 1000 /data
USER 1000
ENV CROPSEEK_DATA_DIR=/data CROPSEEK_HOST=0.0.0.0
VOLUME /data
EXPOSE 50051
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "from cropseek.client import Client; Client('127.0.0.1:50051').wait_ready(4)"]
ENTRYPOINT ["cropseek"]
CMD ["serve"]
