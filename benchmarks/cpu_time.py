"""Where a picture's CPU time goes: each process of a loaded server, against the bare stages.

    python -m benchmarks.cpu_time --images DIR --json OUT [--rounds 5] [--passes 8]

Every round takes turns: a server under a closed loop at concurrency 8, and one single-thread
process a core with the bare stages, no server; then both again with models that compute nothing
(`hollow`), so that what is left is decoding, cropping and the path. Reported:
milliseconds of a core a picture, by what the process is for, the load generator among them, and
what of all cores' time was idle meanwhile.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import cv2
import psutil

from benchmarks.end_to_end import CONCURRENCY, CROPS_A_RUN, closed_loop, index
from benchmarks.hollow import write_hollow_repository
from benchmarks.machine import description
from benchmarks.served import Served, served
from benchmarks.stages import Stages
from cropseek.triton.cores import usable_cores

_STUB_MODEL = re.compile(r"/(\w+)/\d+/model\.(?:py|onnx)")


def main() -> None:
    """Measure, print, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--passes", type=int, default=8)
    arguments = parser.parse_args()
    pictures = [path.read_bytes() for path in sorted(arguments.images.glob("*.jpg"))]
    rounds = []
    with ExitStack() as opened:
        hollow = Path(opened.enter_context(tempfile.TemporaryDirectory())) / "model_repository"
        write_hollow_repository(hollow)
        server = opened.enter_context(served())
        hollow_server = opened.enter_context(served(hollow))
        for each in (server, hollow_server):
            index(each.client, pictures)
            closed_loop(each.client.search, pictures, CONCURRENCY)  # unmeasured: caches, pools
        for _ in range(arguments.rounds):
            todo = pictures * arguments.passes
            rounds.append(
                {
                    "server": _server(server, todo),
                    "bare": _bare(todo),
                    "hollow_server": _server(hollow_server, todo),
                    "hollow_bare": _bare(todo, hollow),
                }
            )
            print(rounds[-1], flush=True)
    result = {"machine": description(), "pictures": len(pictures), "core_ms_a_picture": rounds}
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _server(server: Served, pictures: Sequence[bytes]) -> dict[str, float]:
    before, own_before, begin = _cpu_s(server.pid), time.process_time(), time.perf_counter()
    closed_loop(server.client.search, pictures, CONCURRENCY)
    wall_s = time.perf_counter() - begin
    used = {who: spent_s - before[who] for who, spent_s in _cpu_s(server.pid).items()}
    used["load generator"] = time.process_time() - own_before
    used["idle"] = wall_s * usable_cores() - sum(used.values())
    figures = {who: round(spent / len(pictures) * 1e3, 2) for who, spent in used.items()}
    return {who: ms for who, ms in figures.items() if ms}


def _cpu_s(pid: int) -> dict[str, float]:
    """Return the CPU seconds so far of a process and all below it, summed by what they are for."""
    top = psutil.Process(pid)
    spent: dict[str, float] = defaultdict(float)
    for process in [top, *top.children(recursive=True)]:
        times = process.cpu_times()
        spent[_purpose(process, top)] += times.user + times.system
    return spent


def _purpose(process: psutil.Process, top: psutil.Process) -> str:
    if process == top:
        return "service"
    model = _STUB_MODEL.search(" ".join(process.cmdline()))
    return model[1] if model else process.name()


def _bare(pictures: Sequence[bytes], model_repository: Path | None = None) -> dict[str, float]:
    """Return the CPU time of the bare stages, fed and threaded as the server's are."""
    spawn = multiprocessing.get_context("spawn")
    answers: Any = spawn.SimpleQueue()
    cores = usable_cores()
    workers = [
        spawn.Process(target=_work, args=(pictures[core::cores], answers, model_repository))
        for core in range(cores)
    ]
    for worker in workers:
        worker.start()
    spent_s = [answers.get() for _ in workers]
    for worker in workers:
        worker.join()
    return {"stages": round(sum(spent_s) / len(pictures) * 1e3, 2)}


def _work(pictures: Sequence[bytes], answers: Any, model_repository: Path | None) -> None:
    cv2.setNumThreads(1)
    stages = Stages(threads=1, crops_a_run=CROPS_A_RUN, model_repository=model_repository)
    for picture in pictures[:4]:
        stages.run(picture)
    begin = time.process_time()
    for picture in pictures:
        stages.run(picture)
    answers.put(time.process_time() - begin)


if __name__ == "__main__":
    main()
