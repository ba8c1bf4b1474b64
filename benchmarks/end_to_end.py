"""The whole server against the same stages without one: throughput, and a lone request's latency.

    python -m benchmarks.end_to_end --images DIR --json OUT [--rounds 7] [--passes 8]

Every round measures each contestant once over all pictures (several passes of them, so that the
first and last pictures, with fewer in flight, weigh little), in an order that rotates, so that what
the machine does meanwhile hits all alike. The contestants:

- `cropseek`: one running server, searched through its gRPC API by a closed loop at concurrency 8;
- `limit`: as many single-thread processes as cores, each running the bare stages, no server;
- `limit_tuned`: the same with the embedder fed as few crops at a time as the server feeds it;
- `plain`: the bare stages in one sequential script with ONNX Runtime's default sessions, which is
  also the bare latency; `plain_quiet` the same without spinning threads;
- `cropseek_lone`: the same running server, one request at a time.

Accuracy gate: before anything is timed the server's embeddings of every picture must equal the
bare stages' (cosine > 0.9999), so that both do the same work. The machine must be idle.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from benchmarks.machine import description
from benchmarks.served import served
from benchmarks.stages import Stages
from benchmarks.statistics import Interval, ratio
from cropseek.client import Client
from cropseek.client.results import IndexItem
from cropseek.triton.cores import usable_cores

CONCURRENCY = 8
CROPS_A_RUN = 2  # as the embedder's configuration says
Measure = Callable[[Sequence[bytes]], dict[str, float]]


def main() -> None:
    """Measure, print, and write the JSON."""
    arguments = _arguments()
    pictures = [path.read_bytes() for path in sorted(arguments.images.glob("*.jpg"))]
    print(f"{len(pictures)} pictures, {arguments.rounds} rounds, {usable_cores()} cores")
    with ExitStack() as opened:
        client = opened.enter_context(served()).client
        index(client, pictures)
        plain = Stages()
        _gate(client, plain, pictures)
        contestants: dict[str, Measure] = {
            "cropseek": lambda todo: closed_loop(client.search, todo, CONCURRENCY),
            "limit": opened.enter_context(_workers(crops_a_run=0)),
            "limit_tuned": opened.enter_context(_workers(crops_a_run=CROPS_A_RUN)),
            "plain": _sequential(plain.run),
            "plain_quiet": _sequential(Stages(spinning=False).run),
            "cropseek_lone": _sequential(client.search),
        }
        rounds = _rounds(contestants, pictures * arguments.passes, arguments.rounds)
    ratios = _ratios(rounds)
    result = {
        "machine": description(),
        "pictures": len(pictures),
        "passes": arguments.passes,
        "concurrency": CONCURRENCY,
        "rounds": rounds,
        "ratios": {name: asdict(interval) for name, interval in ratios.items()},
    }
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print("; ".join(f"{name} {interval}" for name, interval in ratios.items()))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--passes", type=int, default=8)
    return parser.parse_args()


def index(client: Client, pictures: Sequence[bytes]) -> None:
    """Store the pictures, so that a search has something to find."""
    items = (IndexItem(picture, source=str(i)) for i, picture in enumerate(pictures))
    for outcome in client.index_images(items):
        assert outcome.error is None, outcome.error


def _gate(client: Client, stages: Stages, pictures: Sequence[bytes]) -> None:
    """Refuse to time two things that do not do the same."""
    worst = 1.0
    for picture in pictures:
        ours, bare = client.embed(picture).embeddings, stages.run(picture)
        assert len(ours) == len(bare), f"{len(ours)} objects from the server, {len(bare)} bare"
        if len(bare):
            worst = min(worst, float((ours * bare).sum(axis=1).min()))
    assert worst > 0.9999, f"cosine {worst}"
    print(f"same embeddings: worst cosine {worst:.6f}")


def _rounds(
    contestants: dict[str, Measure], pictures: Sequence[bytes], count: int
) -> list[dict[str, dict[str, float]]]:
    names = list(contestants)
    for name in names:  # once unmeasured: memory, caches, thread pools
        contestants[name](pictures[:16])
    rounds = []
    for number in range(count):
        turn = number % len(names)
        results = {name: contestants[name](pictures) for name in names[turn:] + names[:turn]}
        rounds.append({name: results[name] for name in names})
        print(
            f"round {number + 1}: "
            + ", ".join(
                f"{name} {results[name]['pictures_per_s']:.1f}/s "
                f"p50 {results[name]['p50_ms']:.1f} ms"
                for name in names
            ),
            flush=True,
        )
    return rounds


def _ratios(rounds: list[dict[str, dict[str, float]]]) -> dict[str, Interval]:
    def values(name: str, figure: str) -> list[float]:
        return [results[name][figure] for results in rounds]

    speed = "pictures_per_s"
    return {
        "throughput/limit": ratio(values("cropseek", speed), values("limit", speed)),
        "throughput/limit_tuned": ratio(values("cropseek", speed), values("limit_tuned", speed)),
        "throughput/plain": ratio(values("cropseek", speed), values("plain", speed)),
        "lone_p50/bare": ratio(values("cropseek_lone", "p50_ms"), values("plain", "p50_ms")),
        "lone_p50/bare_quiet": ratio(
            values("cropseek_lone", "p50_ms"), values("plain_quiet", "p50_ms")
        ),
    }


def _sequential(run: Callable[[bytes], Any]) -> Measure:
    return lambda pictures: closed_loop(run, pictures, 1)


def closed_loop(
    run: Callable[[bytes], Any], pictures: Sequence[bytes], concurrency: int
) -> dict[str, float]:
    """Run pictures with `concurrency` always in flight; return pictures/s, p50 and p95 in ms."""

    def timed(picture: bytes) -> float:
        start = time.perf_counter()
        run(picture)
        return time.perf_counter() - start

    begin = time.perf_counter()
    if concurrency == 1:
        latencies = [timed(picture) for picture in pictures]
    else:
        with ThreadPoolExecutor(concurrency) as threads:
            latencies = list(threads.map(timed, pictures))
    return _figures(latencies, time.perf_counter() - begin)


def _figures(latencies_s: Sequence[float], wall_s: float) -> dict[str, float]:
    return {
        "pictures_per_s": len(latencies_s) / wall_s,
        "p50_ms": statistics.median(latencies_s) * 1e3,
        "p95_ms": float(np.percentile(latencies_s, 95)) * 1e3,
    }


@contextmanager
def _workers(crops_a_run: int) -> Iterator[Measure]:
    """Run one single-thread process a core; each takes the next picture when it is done."""
    spawn = multiprocessing.get_context("spawn")
    todo: Any = spawn.SimpleQueue()
    done: Any = spawn.SimpleQueue()
    processes = [
        spawn.Process(target=_work, args=(todo, done, crops_a_run), daemon=True)
        for _ in range(usable_cores())
    ]
    for process in processes:
        process.start()

    def measure(pictures: Sequence[bytes]) -> dict[str, float]:
        begin = time.perf_counter()
        for picture in pictures:
            todo.put(picture)
        latencies = [done.get() for _ in pictures]
        return _figures(latencies, time.perf_counter() - begin)

    try:
        yield measure
    finally:
        for _ in processes:
            todo.put(None)
        for process in processes:
            process.join()


def _work(todo: Any, done: Any, crops_a_run: int) -> None:
    cv2.setNumThreads(1)
    stages = Stages(threads=1, crops_a_run=crops_a_run)
    while (picture := todo.get()) is not None:
        start = time.perf_counter()
        stages.run(picture)
        done.put(time.perf_counter() - start)


if __name__ == "__main__":
    main()
