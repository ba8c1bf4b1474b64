"""The colours of backends, in a picture and in a terminal."""

from __future__ import annotations

from typing import NamedTuple


class Color(NamedTuple):
    """A backend's colour: of lines and text, of the ground, and rich's style in a terminal."""

    line: str
    ground: str
    style: str


COLORS = {  # in the legend's order
    "python": Color("#2f62a8", "#e6eefa", "blue"),
    "onnxruntime": Color("#7a4fa3", "#f1e9f8", "magenta"),
    "tensorrt": Color("#4b7a12", "#eaf3dc", "green"),
    "dali": Color("#0b7a7a", "#def2f1", "cyan"),
    "ensemble": Color("#4a5568", "#e6e9ee", ""),
    "other": Color("#6d5f4b", "#f0ebe3", ""),
}
