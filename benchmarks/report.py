"""Renders the tables of docs/performance.md from benchmarks/results/*.json.

python -m benchmarks.report            # rewrites the document between its markers
python -m benchmarks.report --check    # only says whether it would change
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "performance.md"
RESULTS = ROOT / "benchmarks" / "results"
_MARKED = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> None:
    """Rewrite the document, or check it; exits with 1 if a check finds a difference."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    before = DOCUMENT.read_text(encoding="utf-8")
    after = rendered(before)
    if check and after != before:
        sys.exit("docs/performance.md is not what `python -m benchmarks.report` writes")
    DOCUMENT.write_text(after, encoding="utf-8")


def rendered(document: str) -> str:
    """Return the document with the table after each marker made anew."""
    return _MARKED.sub(lambda m: m[1] + _TABLES[m[2]](_load(m[2])) + m[3], document)


def _load(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def _interval(interval: dict[str, float]) -> str:
    return f"{interval['mean']:.3f} ({interval['low']:.3f} to {interval['high']:.3f})"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _machine(result: Any) -> str:
    machine = result["machine"]
    versions = ", ".join(f"{k} {v}" for k, v in machine["packages"].items())
    return (
        f"\n{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}, {versions}; "
        f"{machine['date'][:10]}, commit {machine['commit']}.\n"
    )


def _end_to_end(result: Any) -> str:
    rounds = result["rounds"]
    rows = []
    for name in rounds[0]:
        speeds = [r[name]["pictures_per_s"] for r in rounds]
        rows.append(
            [
                f"`{name}`",
                f"{statistics.median(speeds):.1f} ({min(speeds):.1f} to {max(speeds):.1f})",
                f"{statistics.median(r[name]['p50_ms'] for r in rounds):.1f}",
                f"{statistics.median(r[name]['p95_ms'] for r in rounds):.1f}",
            ]
        )
    head = ["contestant", "pictures/s, median (range)", "p50 ms", "p95 ms"]
    ratios = [[f"`{name}`", _interval(value)] for name, value in result["ratios"].items()]
    return (
        _table(head, rows)
        + "\n"
        + _table(["ratio", "mean (95 % interval)"], ratios)
        + _machine(result)
    )


def _cpu_time(result: Any) -> str:
    rounds = result["core_ms_a_picture"]

    def medians(name: str) -> dict[str, float]:
        keys = rounds[0][name]
        return {key: statistics.median(r[name].get(key, 0.0) for r in rounds) for key in keys}

    def total(name: str) -> str:
        return f"{statistics.median(sum(r[name].values()) for r in rounds):.1f}"

    server, hollow = medians("server"), medians("hollow_server")
    rows = [
        [who, f"{server[who]:.1f}", f"{hollow.get(who, 0.0):.1f}"]
        for who in sorted(server, key=server.__getitem__, reverse=True)
    ]
    rows += [
        ["all of it", total("server"), total("hollow_server")],
        ["bare stages, no server", total("bare"), total("hollow_bare")],
    ]
    head = ["core-ms a picture, median", "as served", "models that compute nothing"]
    return _table(head, rows) + _path_ms(rounds) + _machine(result)


def _path_ms(rounds: list[dict[str, dict[str, float]]]) -> str:
    """Return what the server takes beyond the bare stages, idle time left out."""

    def spread(server: str, bare: str) -> str:
        more = [sum(r[server].values()) - r[server]["idle"] - r[bare]["stages"] for r in rounds]
        return f"{statistics.median(more):.1f} ({min(more):.1f} to {max(more):.1f})"

    return (
        f"\nBeyond the bare stages, idle time left out: {spread('server', 'bare')} as served, "
        f"{spread('hollow_server', 'hollow_bare')} with models that compute nothing.\n"
    )


def _frame_path(result: Any) -> str:
    rounds = result["rounds"]
    figures = list(rounds[0]["frame"])
    rows = [
        [f"`{way}`", *(f"{statistics.median(r[way][f] for r in rounds):.1f}" for f in figures)]
        for way in rounds[0]
    ]
    return _table(["way", *figures], rows) + _machine(result)


def _orchestration(result: Any) -> str:
    rounds, memory = result["pictures_per_s"], result["pss_mib"]
    rows = [
        [
            way,
            f"{statistics.median(r[way] for r in rounds):.1f}",
            str(memory["image_search" if way == "blocking" else "image_search_decoupled"]),
        ]
        for way in ("blocking", "decoupled")
    ]
    compared = f"\ndecoupled/blocking {_interval(result['decoupled/blocking'])}.\n"
    return _table(["way", "pictures/s, median", "PSS, MiB"], rows) + compared + _machine(result)


def _footprint(result: Any) -> str:
    rows = [
        ["`cropseek serve` until a search answers, s", f"{result['ready_s']['median']:.1f}"],
        ["PSS at rest, MiB", str(result["rest_pss_mib"])],
        [
            "peak PSS, 12-megapixel pictures at concurrency 4, MiB",
            str(result["large_peak_pss_mib"]),
        ],
        ["PSS after them, MiB", str(result["after_large_pss_mib"])],
        ["largest /dev/shm, MiB", str(result["large_peak_shm_mib"])],
    ]
    return _table(["", ""], rows) + _machine(result)


def _repo_check(result: Any) -> str:
    seconds = result["seconds"]
    spread = f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"
    return f"{result['models']} models: {spread}, {len(seconds)} runs.\n" + _machine(result)


def _lookalikes(result: Any) -> str:
    rows = [
        [what, str(f["overlapping"]), str(f["own_item_first"]), f"{100 * f['share']:.1f} %"]
        for what, f in result["figures"].items()
    ]
    return _table(["the photo comes back as", "detections", "own item first", "share"], rows)


def _detector_map(result: Any) -> str:
    return (
        f"mAP50-95 {result['cropseek']['map50_95']:.4f}, "
        f"Ultralytics' own {result['ultralytics']['map50_95']:.4f}.\n"
    )


_TABLES: dict[str, Callable[[Any], str]] = {
    "end_to_end": _end_to_end,
    "cpu_time": _cpu_time,
    "frame_path": _frame_path,
    "orchestration": _orchestration,
    "footprint": _footprint,
    "lookalikes": _lookalikes,
    "repo_check": _repo_check,
    "detector_map": _detector_map,
}

if __name__ == "__main__":
    main()
