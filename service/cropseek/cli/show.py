"""What goes to stdout: JSON lines, or tables for people."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cropseek.cli.inputs import Picture
from cropseek.client.results import Detection, DetectResult, EmbedResult, Neighbor, SearchResult
from cropseek.text import path_text, printable

if TYPE_CHECKING:
    from cropseek.cli.files import VectorFile
    from cropseek.demo import Demo, FoundObject
    from cropseek.triton.machine import Check

stdout = Console(highlight=False)
_LOOK_ALIKES_SHOWN = 3
_VERDICTS = {
    "right": "[green]yes[/green]",
    "wrong": "[red]no[/red]",
    "new": "[dim]new[/dim]",
}


def print_json(document: dict[str, Any]) -> None:
    """Print one document as one line."""
    print(json.dumps(document), flush=True)


def print_detections_json(picture: Picture, result: DetectResult) -> None:
    """Print one picture's objects as JSON."""
    print_json({**picture.to_dict(), **result.to_dict()})


def print_neighbors_json(picture: Picture, result: SearchResult) -> None:
    """Print one picture's objects with what looks like each as JSON."""
    print_json({**picture.to_dict(), **result.to_dict()})


def print_embeddings(picture: Picture, result: EmbedResult) -> None:
    """Print one picture's regions and their vectors as JSON."""
    print_json({**picture.to_dict(), **result.to_dict()})


def print_detections(picture: Picture, result: DetectResult) -> None:
    """Print one picture's objects."""
    width, height = result.size_wh
    found = _count(len(result.detections), "object") + _more(result.truncated)
    _print_title(picture, f"{width} x {height}, {found}")
    if not result.detections:
        stdout.print(Text("a lower --min-score or other --classes may find some", "dim"))
        return
    table = _table()
    table.add_column("label")
    table.add_column("score", justify="right")
    for corner in ("x1", "y1", "x2", "y2"):
        table.add_column(corner, justify="right")
    for detection in result.detections:
        corners = [f"{value:.1f}" for value in detection.box_xyxy]
        table.add_row(Text(_label(detection)), f"{detection.score:.3f}", *corners)
    stdout.print(table)


def print_neighbors(picture: Picture, result: SearchResult) -> None:
    """Print one picture's objects with what looks like each."""
    took = sum(result.timings_ms.values()) if result.timings_ms else 0.0
    took = result.timings_ms.get("total", took)
    found = _count(len(result.detections), "object") + _more(result.truncated)
    _print_title(picture, f"{found}, {took:.0f} ms")
    if not result.detections:
        hint = "a lower --min-score, other --classes, or --regions whole-picture may find some"
        stdout.print(Text(hint, "dim"))
        return
    table = _table()
    table.add_column("object", no_wrap=True)
    table.add_column("similarity", justify="right", no_wrap=True)
    folder = _common_folder([n.source for d in result.detections for n in d.neighbors])
    if folder:
        _print_line(f"look-alikes are in {folder}", style="dim")
    table.add_column("found in", overflow="fold", ratio=1, min_width=12)
    table.add_column("as", no_wrap=True)
    for detection in result.detections:
        _add_neighbors(table, detection, folder)
    stdout.print(table)


def _add_neighbors(table: Table, detection: Detection, folder: str) -> None:
    name = f"{_label(detection)} {detection.score:.2f}"
    if not detection.neighbors:
        table.add_row(Text(name), "", Text("nothing like it", "dim"), "", end_section=True)
    for number, neighbor in enumerate(detection.neighbors):
        table.add_row(
            Text(name if number == 0 else ""),
            f"{neighbor.similarity:.3f}",
            Text(printable(found_in(neighbor).removeprefix(folder))),
            Text(printable(f"{neighbor.label or 'whole picture'} {neighbor.score:.2f}")),
            end_section=number == len(detection.neighbors) - 1,
        )


def _common_folder(sources: Sequence[str]) -> str:
    """Return the folder that all sources are in, below the current one if it is; else nothing."""
    shown = [_below_here(source) for source in sources]
    shared = os.path.commonprefix(shown)  # noqa: RUF071 a source is any text, not only a path
    folder = shared[: shared.rfind("/") + 1]
    is_root = folder == "/" or folder.endswith("://")
    return "" if is_root or folder in shown else folder


def _below_here(source: str) -> str:
    try:
        here = path_text(Path.cwd())
    except FileNotFoundError:  # it has been deleted
        return source
    return source.removeprefix(here + os.sep)


def found_in(neighbor: Neighbor) -> str:
    """Return a neighbour's source, short where it lies below the current folder."""
    source = _below_here(neighbor.source)
    return source if neighbor.time_s is None else f"{source} at {neighbor.time_s:.2f} s"


def print_indexed(images: int, items: int, collection: str, took_s: float) -> None:
    """Print what an `index` command did."""
    objects, pictures = _count(items, "object"), _count(images, "picture")
    _print_line(f"{objects} of {pictures} in collection {collection}, {took_s:.1f} s")


def print_vectors_written(file: VectorFile, *, as_json: bool) -> None:
    """Print what an `embed` command wrote."""
    if as_json:
        print_json({"output": path_text(file.path), "vectors": file.count, "dim": file.dim})
    else:
        _print_line(f"{_count(file.count, 'vector')} in {path_text(file.path)}")


def print_drawn(picture: Picture, result: DetectResult, output: Path, *, as_json: bool) -> None:
    """Print what a `draw` command wrote."""
    if as_json:
        print_json({**picture.to_dict(), **result.to_dict(), "output": path_text(output)})
    else:
        _print_line(f"{path_text(output)}: {_count(len(result.detections), 'object')}")


def print_demo(demo: Demo, page: Path, ready_s: float, took_s: float, *, as_json: bool) -> None:
    """Print what the demo found and where its page is."""
    if as_json:
        seconds = {"ready": round(ready_s, 3), "total": round(took_s, 3)}
        raw = demo.to_dict()
        print_json({**raw, "seconds": {**raw["seconds"], **seconds}, "page": path_text(page)})
        return
    indexed, objects = _count(len(demo.indexed), "picture"), _count(demo.items, "object")
    stdout.print(f"Indexed {indexed} with {objects} in {demo.index_s:.1f} s.")
    query = f"frame {demo.query.number} of {demo.query.video}"
    stdout.print(f"Searched by {query} in {demo.search_s * 1e3:.0f} ms:\n")
    table = _table()
    table.add_column("object", no_wrap=True)
    table.add_column("nearest look-alikes: frame and similarity", no_wrap=True)
    table.add_column("again?", no_wrap=True)
    for found in demo.objects:
        name = f"{found.detection.label} {found.detection.score:.2f}"
        table.add_row(name, _look_alikes(found), _VERDICTS[found.verdict])
    stdout.print(table)
    stdout.print(f"\n{demo.headline}. {took_s:.1f} s in all, {ready_s:.1f} s of it to start.")
    folder = page.parent
    for what, path in {
        "Open in a browser": page,
        "Annotated": folder / "query.jpg",
        "": folder / "indexed",
    }.items():
        _print_line(f"{what:18} {path_text(path)}")


def _look_alikes(found: FoundObject) -> Text:
    text = Text()
    for alike in found.look_alikes[:_LOOK_ALIKES_SHOWN]:
        style = "green" if alike.right else ""
        text.append(f"{alike.frame.title} ", style)
        text.append(f"{alike.neighbor.similarity:.3f}  ", f"{style} bold")
    return text


def print_serving(target: str, data_dir: Path, *, as_json: bool) -> None:
    """Print where a server answers."""
    if as_json:
        print_json({"target": target, "data_dir": path_text(data_dir)})
    else:
        _print_line(f"cropseek serves at {target}, data in {path_text(data_dir)}; ctrl-C stops it")


def print_checks(checks: Sequence[Check], *, as_json: bool) -> None:
    """Print what `doctor` found."""
    if as_json:
        well = all(check.ok for check in checks)
        print_json({"ok": well, "checks": [asdict(check) for check in checks]})
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        verdict = Text("ok", "green") if check.ok else Text("no", "bold red")
        table.add_row(verdict, check.name, Text(check.detail))
        if not check.ok:
            table.add_row("", "", Text(check.remedy, "yellow"))
    stdout.print(table)


def _table() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")


def _print_line(line: str, style: str = "") -> None:
    """Print a line as it is, however wide the terminal is."""
    stdout.print(Text(printable(line), style), soft_wrap=True)


def _print_title(picture: Picture, about: str) -> None:
    title = (printable(picture.title), "bold")
    stdout.print(Text.assemble(title, "  ", (about, "dim")), soft_wrap=True)


def _label(detection: Detection) -> str:
    return printable(detection.label) or "whole picture"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _more(truncated: bool) -> str:
    return ", and more that were left out" if truncated else ""
