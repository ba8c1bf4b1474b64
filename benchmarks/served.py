"""A server as users run it: `cropseek serve` in a process of its own."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cropseek.client import Client
from cropseek.settings import Settings, base_environment


@dataclass(frozen=True)
class Served:
    """A running server: its process id, a client, and how long it took to be ready."""

    pid: int
    client: Client
    ready_s: float


@contextmanager
def served(model_repository: Path | None = None) -> Iterator[Served]:
    """Run `cropseek serve` with a data directory of its own on a free port."""
    model_repository = model_repository or Settings().model_repository
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "cropseek", "serve", "--port", str(port)]
    with tempfile.TemporaryDirectory() as data_dir:
        start = time.perf_counter()
        process = subprocess.Popen(
            [*command, "--data-dir", data_dir],
            env={**base_environment(), "CROPSEEK_MODEL_REPOSITORY": str(model_repository)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            with Client(f"127.0.0.1:{port}") as client:
                client.wait_ready(60)
                yield Served(process.pid, client, time.perf_counter() - start)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
