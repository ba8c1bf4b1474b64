"""Starts and stops a whole server: catalog, Triton, gRPC; in the foreground or inside a command."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health
from grpc_reflection.v1alpha import reflection

from cropseek.catalog import Catalog
from cropseek.engine import Engine
from cropseek.errors import NotReady, SetupError
from cropseek.pb import cropseek_pb2 as pb
from cropseek.pb import cropseek_pb2_grpc as pb_grpc
from cropseek.rpc.interceptors import ErrorInterceptor
from cropseek.rpc.servicer import Servicer
from cropseek.settings import Settings
from cropseek.triton.client import TritonClient
from cropseek.triton.cores import usable_cores
from cropseek.triton.launcher import TritonServer
from cropseek.triton.manifest import Manifest, load_manifest
from cropseek.triton.repository import PICTURES_PER_CORE

SERVICE = pb.DESCRIPTOR.services_by_name["CropseekService"].full_name
_STOP_GRACE_S = 10.0
_WATCH_S = 1.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunningServer:
    """A server that answers: its address, its Triton's, and whether a model is broken for good."""

    target: str
    triton_target: str
    broken: Callable[[], bool]


@dataclass(frozen=True)
class _Backend:
    settings: Settings
    catalog: Catalog
    triton: TritonServer
    manifest: Manifest


def serve(settings: Settings, on_ready: Callable[[RunningServer], None] | None = None) -> None:
    """Serve until SIGINT or SIGTERM, then finish what is in work.

    Raises `SetupError` if this machine cannot serve, `NotReady` if Triton does not start or dies.
    """
    _check_port_free(settings)
    with _sigterm_as_interrupt(), _backend(settings) as backend:

        async def run() -> None:
            stop = asyncio.Event()
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, stop.set)
            async with _grpc_server(backend) as running:
                if on_ready is not None:
                    on_ready(running)
                await _until_stopped(stop, backend.triton, running)

        asyncio.run(run())


@contextmanager
def running_server(settings: Settings) -> Iterator[RunningServer]:
    """Run a server for the length of a `with` block, on a free loopback port.

    Raises as `serve` does.
    """
    settings = settings.model_copy(update={"host": "127.0.0.1", "port": 0})
    with _sigterm_as_interrupt(), _backend(settings) as backend, _in_thread(backend) as running:
        yield running


@contextmanager
def _backend(settings: Settings) -> Iterator[_Backend]:
    manifest = load_manifest(settings.model_repository)
    with Catalog(settings.data_dir) as catalog, TritonServer(settings) as triton:
        yield _Backend(settings, catalog, triton, manifest)


@contextmanager
def _in_thread(backend: _Backend) -> Iterator[RunningServer]:
    """Run the gRPC server on an event loop of its own, beside the caller's code."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="cropseek-grpc", daemon=True)
    thread.start()
    server = _grpc_server(backend)
    try:
        running = asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result()
        try:
            yield running
        finally:
            ended = server.__aexit__(None, None, None)
            asyncio.run_coroutine_threadsafe(ended, loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@asynccontextmanager
async def _grpc_server(backend: _Backend) -> AsyncIterator[RunningServer]:
    settings = backend.settings
    async with TritonClient(backend.triton.target) as triton:
        engine = Engine(backend.catalog, triton, backend.manifest, settings)
        server = grpc.aio.server(
            interceptors=[ErrorInterceptor()],
            options=[
                ("grpc.so_reuseport", 0),  # else a second server would share the port
                ("grpc.max_send_message_length", settings.max_message_bytes),
                ("grpc.max_receive_message_length", settings.max_message_bytes),
            ],
        )
        servicer = Servicer(
            engine,
            window=2 * PICTURES_PER_CORE * usable_cores(),
            max_message_bytes=settings.max_message_bytes,
        )
        pb_grpc.add_CropseekServiceServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]
        status = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(status, server)
        names = (SERVICE, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name)
        reflection.enable_server_reflection((*names, reflection.SERVICE_NAME), server)
        port = _bind(server, settings)
        await server.start()
        for name in ("", SERVICE):
            await status.set(name, health_pb2.HealthCheckResponse.SERVING)
        try:
            yield RunningServer(
                _address(settings.host, port), backend.triton.target, lambda: triton.broken
            )
        finally:
            servicer.stop()
            await status.enter_graceful_shutdown()
            await server.stop(_STOP_GRACE_S)


async def _until_stopped(stop: asyncio.Event, triton: TritonServer, running: RunningServer) -> None:
    """Wait for a signal; raises `NotReady` if Triton or one of its models ends before."""
    while not stop.is_set():
        if running.broken():
            raise NotReady("a model's process has died: ending, to be started again")
        if not triton.alive():
            raise NotReady(
                f"Triton ended with status {triton.exit_status()}; the end of its log:",
                triton.log_tail(),
            )
        try:
            await asyncio.wait_for(stop.wait(), _WATCH_S)
        except asyncio.TimeoutError:
            continue


def _bind(server: grpc.aio.Server, settings: Settings) -> int:
    try:
        port = server.add_insecure_port(_address(settings.host, settings.port))
    except RuntimeError:
        port = 0
    if not port:
        raise SetupError(_in_use(settings))
    return int(port)


def _check_port_free(settings: Settings) -> None:
    """Raise `SetupError` if the port is taken, before seconds are spent on starting Triton."""
    if not settings.host or _is_short_for_an_address(settings.host):
        raise SetupError(f"host: expected an address, got {settings.host!r}")
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except socket.gaierror as error:
            raise SetupError(
                f"host: expected an address, got {settings.host!r}: {error.strerror}"
            ) from None
        except (UnicodeError, TypeError):  # no name that a host can have
            raise SetupError(f"host: expected an address, got {settings.host!r}") from None
        except OSError as error:
            if error.errno in (errno.EADDRNOTAVAIL, errno.EINVAL):
                raise SetupError(
                    f"host: expected an address of this machine, got {settings.host!r}"
                ) from None
            raise SetupError(f"{_in_use(settings)} ({error.strerror})") from None


def _is_short_for_an_address(host: str) -> bool:
    """Return whether the system reads a host as an address and gRPC does not, as "127.1"."""
    try:
        socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError, TypeError):
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return True
    return False


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _in_use(settings: Settings) -> str:
    return (
        f"cannot listen on {_address(settings.host, settings.port)}; "
        "stop what listens there, or choose another --port"
    )


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Let SIGTERM unwind the stack as ctrl-C does, so that Triton is stopped and cleaned up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
