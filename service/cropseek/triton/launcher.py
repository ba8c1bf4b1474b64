"""Starts a tritonserver, waits until a real picture comes through it, and leaves nothing behind.

Why it looks as it does: tritonserver reports READY before a search works and stays READY when a
model's process has died, so readiness is a search. It leads a process group of its own, so that
ctrl-C reaches it through us, in order. A guard, a shell that waits for us to close a pipe, kills
that group and removes its shared memory; as the kernel closes the pipe whatever ends us, a crash
and an orderly stop are the same thing. (Left to themselves, model processes that are killed within
a request can wait for each other for ever.)
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

import cv2
import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from cropseek.errors import NotReady, SetupError
from cropseek.settings import Settings, as_environment, base_environment
from cropseek.text import path_text
from cropseek.triton.client import MODEL, image_input
from cropseek.triton.cores import usable_cores
from cropseek.triton.machine import (
    TritonInstall,
    check_machine,
    find_tritonserver,
    libpython,
    require,
)
from cropseek.triton.repository import (
    PICTURES_PER_CORE,
    prepare_backends,
    prepare_repository,
    require_backends,
)
from cropseek.types import PictureOptions, Regions

_LOG_TAIL_LINES = 8
_LOG_LINE_LENGTH = 400
_LOG_ERROR = re.compile(r"^E\d{4} |^error: ")
# After this, which is told as information, tritonserver waits for the process for ever.
_STUB_FAILED = "Failed to preinitialize Python stub"
# Said on every CPU machine, of odd pictures, or of what goes well; tables; a stack's frames.
_LOG_NOISE = re.compile(
    r"CudaDriverHelper|CUDA driver version|pinned_memory_manager|Corrupt JPEG data|^libpng "
    rf"|^[|+]|^\s*\d+# |^I\d{{4}} (?!.*{_STUB_FAILED})"
)
_SHM = Path("/dev/shm")
_GUARD = """
cat >/dev/null
kill -s KILL -- "-$1"
for _ in 1 2; do  # twice: what is killed may have been making a region
    rm -f /dev/shm/*"$2"*
    sleep 0.05
done
"""
_MODEL_PROCESSES = {
    # One thread a library: the models' own threads are the plan.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # Keep the memory of ordinary pictures instead of faulting it in anew for each; that of large
    # ones still goes back at once.
    "MALLOC_MMAP_THRESHOLD_": str(8 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(32 * 2**20),
}


class TritonServer:
    """A running tritonserver on a free loopback port; a context manager.

    Its files are under `<data_dir>/run`, made anew at each start: whoever starts one must own the
    data directory. Start it from a thread that lives as long as the server. `backends` are
    Python-based backends besides ours, the `model.py` of each by its name.
    """

    def __init__(self, settings: Settings, backends: Mapping[str, Path] | None = None) -> None:
        self._settings = settings
        self._backends = backends
        self._run_dir = settings.data_dir.resolve() / "run"
        self._log_path = self._run_dir / "triton.log"
        digest = hashlib.sha256(os.fsencode(self._run_dir)).hexdigest()
        self.shm_prefix = f"cropseek_{digest[:8]}_"
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self.target = ""

    def __enter__(self) -> TritonServer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process id of tritonserver."""
        assert self._process is not None, "not started"
        return self._process.pid

    def alive(self) -> bool:
        """Return whether tritonserver runs."""
        return self._process is not None and self.exit_status() is None

    def exit_status(self) -> int | None:
        """Return the status that tritonserver ended with, below 0 for a signal; None if it runs."""
        return self._process.poll() if self._process is not None else None

    def start(self) -> None:
        """Start tritonserver and return when a picture has come through every model.

        Raises `SetupError` if this machine cannot run it, `NotReady` if it dies or takes longer
        than `ready_timeout_s`, with the end of its log.
        """
        require(check_machine(self._settings))
        _require_utf8(self._run_dir)
        install = find_tritonserver(self._settings)
        self._clean()
        self._prepare(install)
        self.target = f"127.0.0.1:{_free_port()}"
        try:
            with self._log_path.open("wb") as log:
                self._process = subprocess.Popen(
                    self._command(install),
                    env=self._environment(install),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self._guard = _start_guard(self._process.pid, self.shm_prefix)
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End tritonserver and its model processes, and remove their shared memory.

        By SIGKILL: the service has answered every request by then, the models hold nothing that is
        not in the catalog, and tritonserver's own exit takes five seconds.
        """
        if self._process is not None:
            if self._guard is not None:
                self._guard.communicate()  # closes its pipe
                self._guard = None
            else:  # interrupted between the two starts
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def log_tail(self) -> str:
        """Return the last lines of tritonserver's log that may say what went wrong."""
        lines = self._log().splitlines() or ["(no log)"]
        told = [line for line in lines if line.strip() and not _LOG_NOISE.search(line)]
        told = told or [line for line in lines if line[:1] not in ("", "|", "+")]
        start = max(0, len(told) - _LOG_TAIL_LINES)
        errors = [number for number, line in enumerate(told) if _LOG_ERROR.match(line)]
        if errors:  # the last one is told, however much follows it
            start = min(start, errors[-1])
        tail = told[start : start + _LOG_TAIL_LINES]
        return "\n".join(line[:_LOG_LINE_LENGTH] for line in tail)

    def _log(self) -> str:
        try:
            return self._log_path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def _clean(self) -> None:
        if self._log_path.exists():  # what the last run's error ids refer to
            self._log_path.replace(self._run_dir.with_name("triton.log.1"))
        shutil.rmtree(self._run_dir, ignore_errors=True)
        for region in _SHM.glob(f"*{self.shm_prefix}*"):
            region.unlink(missing_ok=True)

    def _prepare(self, install: TritonInstall) -> None:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        models, backends = self._run_dir / "models", self._run_dir / "backends"
        profile = self._settings.profile
        prepare_backends(install.root, version, backends, self._backends)
        prepare_repository(self._settings.model_repository, models, profile, usable_cores())
        require_backends(models, profile, backends)

    def _command(self, install: TritonInstall) -> list[str]:
        host, port = self.target.split(":")
        return [
            str(install.executable),
            f"--model-repository={self._run_dir / 'models'}",
            f"--backend-directory={self._run_dir / 'backends'}",
            f"--model-config-name={self._settings.profile}",
            f"--backend-config=python,shm-region-prefix-name={self.shm_prefix}",
            "--disable-auto-complete-config",  # every configuration is complete: starts faster
            "--allow-http=false",
            "--allow-metrics=false",
            f"--grpc-address={host}",
            f"--grpc-port={port}",
        ]

    def _environment(self, install: TritonInstall) -> dict[str, str]:
        return stub_environment(install) | as_environment(self._settings) | _MODEL_PROCESSES

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + self._settings.ready_timeout_s
        client = triton.InferenceServerClient(self.target)
        try:
            while not _server_ready(client):
                self._raise_if_failed()
                if time.monotonic() > deadline:
                    raise NotReady(
                        f"Triton was not ready within {self._settings.ready_timeout_s:g} s; "
                        "the end of its log:",
                        self.log_tail(),
                    )
                time.sleep(0.05)
            self._warm_up(client, deadline)
        finally:
            client.close()

    def _raise_if_failed(self) -> None:
        assert self._process is not None
        status = self._process.poll()
        if status is not None:
            raise NotReady(
                f"Triton ended with status {status} while starting; the end of its log:",
                self.log_tail(),
            )
        if _STUB_FAILED in self._log().rpartition("\n")[0]:  # its line is whole
            raise NotReady("a model's process did not start:", self.log_tail())

    def _warm_up(self, client: triton.InferenceServerClient, deadline: float) -> None:
        """Send a picture through every instance of the whole path."""
        encoded = cv2.imencode(".jpg", np.full((64, 64, 3), 127, np.uint8))[1].tobytes()
        options = PictureOptions(Regions.WHOLE_PICTURE, collection_id=0, top_k=1)

        def search(_: int) -> None:
            client.infer(
                MODEL,
                [image_input(encoded)],
                parameters={"options": options.to_json()},
                client_timeout=max(1.0, deadline - time.monotonic()),
            )

        instances = PICTURES_PER_CORE * usable_cores()
        try:
            with ThreadPoolExecutor(instances) as threads:
                list(threads.map(search, range(instances)))
        except InferenceServerException as error:
            raise NotReady(
                f"a first picture did not come through Triton: {error}; the end of its log:",
                self.log_tail(),
            ) from None


def stub_environment(install: TritonInstall) -> dict[str, str]:
    """Return the environment in which a tritonserver finds its libraries and our packages."""
    environment = base_environment()
    found = libpython()
    libraries = [
        str(folder) for folder in (install.libraries, found and found.parent) if folder is not None
    ]
    inherited = environment.get("LD_LIBRARY_PATH")
    environment["LD_LIBRARY_PATH"] = ":".join(libraries + ([inherited] if inherited else []))
    # The stub takes its packages from the environment whose `bin` comes first.
    environment["PATH"] = f"{sys.prefix}/bin:{environment.get('PATH', '/usr/bin:/bin')}"
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return environment


def _server_ready(client: triton.InferenceServerClient) -> bool:
    try:
        return bool(client.is_server_ready(client_timeout=1.0))
    except InferenceServerException:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _require_utf8(folder: Path) -> None:
    if path_text(folder) != str(folder):
        raise SetupError(
            f"data_dir: expected a path in UTF-8, Triton takes no other, got {path_text(folder)}"
        )


def _start_guard(group: int, shm_prefix: str) -> subprocess.Popen[bytes]:
    """Start what ends a process group, and its shared memory, when its standard input closes."""
    return subprocess.Popen(
        ["/bin/sh", "-c", _GUARD, "cropseek-guard", str(group), shm_prefix],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
