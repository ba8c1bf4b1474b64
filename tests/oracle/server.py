"""Asks a real tritonserver: does it load a repository, and does it answer a request then?"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

from cropseek.settings import Settings
from cropseek.triton.launcher import stub_environment
from cropseek.triton.machine import find_tritonserver
from cropseek.triton.repository import prepare_backends
from tests.oracle.cases import Case, Files

LOAD_S = ANSWER_S = 15.0
_REASON = re.compile(
    r"E\d{4} [\d:. ]+\S*\] \"?(?P<text>(Poll failed|failed to load|Error parsing).*?)\"?$"
)
# "refuses" at load, "fails" at a request, "hangs" or "ends" at either
Outcome = Literal["answers", "refuses", "fails", "hangs", "ends"]


@dataclass(frozen=True)
class Verdict:
    """What a server made of a repository, and its words for it."""

    outcome: Outcome
    message: str = ""


def write(files: Files, root: Path) -> None:
    """Write a repository's files."""
    for name, body in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body, encoding="utf-8")


class Oracle:
    """A tritonserver on an empty repository that is filled from case to case; a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._repository = folder / "repository"
        self._repository.mkdir()
        self._log = folder / "triton.log"
        install = find_tritonserver(Settings())
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        prepare_backends(install.root, version, folder / "backends")
        self._install = install

    def __enter__(self) -> Oracle:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def verdict(self, case: Case) -> Verdict:
        """Load a case's top model, send it requests, and unload everything again.

        A server may end over a case; it gets a second try with a new one, since this happens now
        and then (seen twice) to repositories that it answers else.
        """
        for _ in range(2):
            try:
                return self._verdict(case)
            except InferenceServerException:
                if self._is_live():
                    raise
                self._stop()
                self._start()
        return Verdict("ends")

    def _verdict(self, case: Case) -> Verdict:
        for folder in self._repository.iterdir():
            shutil.rmtree(folder)
        write(case.files, self._repository)
        said = self._log.stat().st_size
        try:
            for model in (*case.first, case.top):
                self._client.load_model(model, client_timeout=LOAD_S)
            verdict = self._answer(case.top)
        except InferenceServerException as error:
            if not self._is_live():
                raise
            if "DEADLINE_EXCEEDED" in str(error.status()):
                verdict = Verdict("hangs")
            else:
                verdict = Verdict("refuses", self._plain(self._reason(said) or error.message()))
        if verdict.outcome == "hangs":
            self._stop()
            self._start()
        else:
            self._unload()
        return verdict

    def _answer(self, model: str) -> Verdict:
        """Send a request of one row, and one of as many as the configuration says it takes."""
        config = self._client.get_model_config(model).config
        for rows in sorted({min(1, config.max_batch_size), config.max_batch_size}):
            try:
                self._client.infer(model, _request(config, rows), client_timeout=ANSWER_S)
            except InferenceServerException as error:
                if "DEADLINE_EXCEEDED" in str(error.status()):
                    return Verdict("hangs")
                if not self._is_live():
                    raise
                which = f"{rows} rows: " if rows > 1 else ""
                return Verdict("fails", which + self._plain(error.message()))
        return Verdict("answers")

    def _is_live(self) -> bool:
        try:
            return bool(self._client.is_server_live(client_timeout=5.0))
        except InferenceServerException:
            return False

    def _plain(self, message: object) -> str:
        """Return a server's message without what differs from run to run."""
        return " ".join(str(message).replace(str(self._repository), "…").split())[:200]

    def _reason(self, said: int) -> str:
        """Return why a load failed: the log says it where the answer does not."""
        lines = self._log.read_bytes()[said:].decode("utf-8", "replace").splitlines()
        found = [match["text"] for match in map(_REASON.match, lines) if match]
        return found[-1] if found else ""

    def _unload(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            left = [m for m in self._client.get_model_repository_index().models if _is_there(m)]
            if not left:
                return
            for model in left:
                if model.state == "READY":
                    self._client.unload_model(model.name)
            time.sleep(0.05)
        raise AssertionError(f"still loaded: {[model.name for model in left]}")

    def _start(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._shm_prefix = f"cropseek_oracle_{port}_"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(self._install.executable),
                    f"--model-repository={self._repository}",
                    f"--backend-directory={self._folder / 'backends'}",
                    "--model-control-mode=explicit",
                    f"--backend-config=python,shm-region-prefix-name={self._shm_prefix}",
                    "--allow-http=false",
                    "--allow-metrics=false",
                    "--grpc-address=127.0.0.1",
                    f"--grpc-port={port}",
                ],
                env=stub_environment(self._install),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._client = triton.InferenceServerClient(f"127.0.0.1:{port}")
        _wait(self._process, self._client)

    def _stop(self) -> None:
        self._client.close()
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for region in Path("/dev/shm").glob(f"*{self._shm_prefix}*"):
            region.unlink(missing_ok=True)


def _is_there(model: Any) -> bool:
    return model.state == "READY" or (model.state, model.reason) == ("UNAVAILABLE", "unloading")


def _request(config: Any, rows: int) -> list[triton.InferInput]:
    tensors = []
    for tensor in config.input:
        if tensor.optional:
            continue
        kind = triton_model_type(tensor.data_type)
        shape = [1 if dim == -1 else dim for dim in tensor.dims]
        if config.max_batch_size > 0:
            shape = [rows, *shape]
        value = np.zeros(shape, triton_to_np_dtype(kind))
        made = triton.InferInput(tensor.name, shape, kind)
        made.set_data_from_numpy(value)
        tensors.append(made)
    return tensors


def triton_model_type(number: int) -> str:
    """Return a data type's name as requests have it."""
    name = triton.model_config_pb2.DataType.Name(number).removeprefix("TYPE_")
    return "BYTES" if name == "STRING" else str(name)


def _wait(process: subprocess.Popen[bytes], client: triton.InferenceServerClient) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, "tritonserver ended"
        try:
            if client.is_server_live():
                return
        except InferenceServerException:
            pass
        time.sleep(0.05)
    raise AssertionError("tritonserver does not answer")
