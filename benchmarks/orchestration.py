"""BLS: several blocking processes against one decoupled process with a pool of threads.

    python -m benchmarks.orchestration --images DIR --json OUT [--rounds 5]

Both are in one running server and call the same models; they take turns. The client talks to Triton
directly (a decoupled model answers streams only, so it cannot stand behind the same call), with 8
pictures in flight. Reported: pictures/s, and the memory (PSS) of the processes of each.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
import tritonclient.grpc as triton

from benchmarks.machine import description
from benchmarks.statistics import ratio
from cropseek.settings import Settings
from cropseek.triton.client import image_input
from cropseek.triton.launcher import TritonServer
from cropseek.types import PictureOptions

IN_FLIGHT = 8
BLOCKING, DECOUPLED = "image_search", "image_search_decoupled"
_MODEL = '''"""As image_search, but one process whose threads each work on one picture."""

from concurrent.futures import ThreadPoolExecutor

import triton_python_backend_utils as pb_utils
from cropseek.triton.bls import call_model
from cropseek.triton.pipeline import Pipeline
from cropseek.triton.wire import to_tensors
from cropseek.types import PictureOptions
import json


class TritonPythonModel:
    def initialize(self, args):
        self._pipeline = Pipeline(call_model, crop_side=224, most_crops=8)
        self._threads = ThreadPoolExecutor(8)

    def execute(self, requests):
        for request in requests:
            self._threads.submit(self._search, request, request.get_response_sender())

    def _search(self, request, sender):
        image = pb_utils.get_input_tensor_by_name(request, "IMAGE").as_numpy()[0]
        options = PictureOptions.from_json(json.loads(request.parameters())["options"])
        tensors = to_tensors(self._pipeline.run(image, options))
        response = pb_utils.InferenceResponse([pb_utils.Tensor(*item) for item in tensors.items()])
        sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
'''


def main() -> None:
    """Measure, print, and write the JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    pictures = [path.read_bytes() for path in sorted(arguments.images.glob("*.jpg"))] * 2
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder) / "models"
        shutil.copytree(Settings().model_repository, repository)
        _add_decoupled(repository)
        settings = Settings(data_dir=Path(folder) / "data", model_repository=repository)
        with (
            TritonServer(settings) as server,
            triton.InferenceServerClient(server.target) as client,
        ):
            ways: dict[str, Callable[[], float]] = {
                "blocking": lambda: _blocking(client, pictures),
                "decoupled": lambda: _decoupled(client, pictures),
            }
            for way in ways.values():
                way()
            rounds = []
            for number in range(arguments.rounds):
                names = list(ways)[:: 1 if number % 2 else -1]
                rounds.append({name: ways[name]() for name in names})
                print(f"round {number + 1}: {rounds[-1]}", flush=True)
            memory = {name: _pss_mib(server.pid, name) for name in (BLOCKING, DECOUPLED)}
    compared = ratio([r["decoupled"] for r in rounds], [r["blocking"] for r in rounds])
    result = {
        "machine": description(),
        "pictures_per_s": rounds,
        "decoupled/blocking": asdict(compared),
        "pss_mib": memory,
    }
    arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"decoupled/blocking {compared}; PSS in MiB {memory}")


def _add_decoupled(repository: Path) -> None:
    source, target = repository / BLOCKING, repository / DECOUPLED
    shutil.copytree(source, target)
    (target / "1" / "model.py").write_text(_MODEL, encoding="utf-8")
    config = target / "configs" / "cpu.pbtxt"
    text = config.read_text(encoding="utf-8").replace(f'"{BLOCKING}"', f'"{DECOUPLED}"', 1)
    text = text.replace("count: 4", "count: 1")
    config.write_text(text + "model_transaction_policy { decoupled: true }\n", encoding="utf-8")


def _parameters() -> dict[str, str]:
    return {"options": PictureOptions(collection_id=0, top_k=5).to_json()}


def _blocking(client: Any, pictures: Sequence[bytes]) -> float:
    begin = time.perf_counter()
    with ThreadPoolExecutor(IN_FLIGHT) as threads:
        list(
            threads.map(
                lambda picture: client.infer(
                    BLOCKING, [image_input(picture)], parameters=_parameters()
                ),
                pictures,
            )
        )
    return len(pictures) / (time.perf_counter() - begin)


def _decoupled(client: Any, pictures: Sequence[bytes]) -> float:
    room = threading.Semaphore(IN_FLIGHT)
    errors: list[Exception] = []

    def answered(result: Any, error: Exception | None) -> None:
        if error is not None:
            errors.append(error)
        room.release()

    begin = time.perf_counter()
    client.start_stream(answered)
    for picture in pictures:
        room.acquire()
        client.async_stream_infer(DECOUPLED, [image_input(picture)], parameters=_parameters())
    for _ in range(IN_FLIGHT):
        room.acquire()
    seconds = time.perf_counter() - begin
    client.stop_stream()
    assert not errors, errors[0]
    return len(pictures) / seconds


def _pss_mib(pid: int, model: str) -> int:
    """Return the PSS of the processes that run one model."""
    processes = [
        process
        for process in psutil.Process(pid).children(recursive=True)
        if any(f"/models/{model}/" in argument for argument in process.cmdline())
    ]
    return round(sum(process.memory_full_info().pss for process in processes) / 2**20)


if __name__ == "__main__":
    main()
