"""Where a picture's CPU time goes: each process of a loaded server, against the bare stages.

    python -m benchmarks.cpu_time --images DIR --json OUT [--rounds 5] [--passes 3]

Every round takes turns: a server under a closed loop at concurrency 8, and one single-thread
process a core with the bare stages, no server. Reported: milliseconds of a core a picture, by what
the process is for, the load generator among them, and what of all cores' time was idle meanwhile.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import psutil

from benchmarks.end_to_end import CONCURRENCY, CROPS_A_RUN, closed_loop, index
from benchmarks.machine import description
from benchmarks.served import served
from benchmarks.stages import Stages
from cropseek.client import Client
from cropseek.triton.cores import usable_cores

_STUB_MODEL = re.compile(r"/(\w+)/\d+/model\.(?:py|onnx)")


def main() -> None:
    """Measure, print, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--passes", type=int, default=3)
    arguments = parser.parse_args()
    pictures = [path.read_bytes() for path in sorted(arguments.images.glob("*.jpg"))]
    rounds = []
    with served() as server:
        index(server.client, pictures)
        closed_loop(server.client.search, pictures, CONCURRENCY)  # unmeasured: caches, pools
        for _ in range(arguments.rounds):
            todo = pictures * arguments.passes
            rounds.append({"server": _server(server.pid, server.client, todo), "bare": _bare(todo)})
            print(rounds[-1], flush=True)
    result = {"machine": description(), "pictures": len(pictures), "core_ms_a_picture": rounds}
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _server(pid: int, client: Client, pictures: Sequence[bytes]) -> dict[str, float]:
    before, own_before, begin = _cpu_s(pid), time.process_time(), time.perf_counter()
    closed_loop(client.search, pictures, CONCURRENCY)
    wall_s = time.perf_counter() - begin
    used = {who: spent_s - before[who] for who, spent_s in _cpu_s(pid).items()}
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


def _bare(pictures: Sequence[bytes]) -> dict[str, float]:
    """Return the CPU time of the bare stages, fed and threaded as the server's are."""
    spawn = multiprocessing.get_context("spawn")
    answers: Any = spawn.SimpleQueue()
    cores = usable_cores()
    workers = [
        spawn.Process(target=_work, args=(pictures[core::cores], answers)) for core in range(cores)
    ]
    for worker in workers:
        worker.start()
    spent_s = [answers.get() for _ in workers]
    for worker in workers:
        worker.join()
    return {"stages": round(sum(spent_s) / len(pictures) * 1e3, 2)}


def _work(pictures: Sequence[bytes], answers: Any) -> None:
    cv2.setNumThreads(1)
    stages = Stages(threads=1, crops_a_run=CROPS_A_RUN)
    for picture in pictures[:4]:
        stages.run(picture)
    begin = time.process_time()
    for picture in pictures:
        stages.run(picture)
    answers.put(time.process_time() - begin)


if __name__ == "__main__":
    main()
