"""`models.toml`: which detector and which embedder are served, and what every file was made from.

One table a role, written by hand because Python reads TOML and does not write it. The file is the
same in every profile, so a collection made on a laptop is usable in production.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from cropseek_export.onnx_passes import sha256_hex

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE_NAME = "models.toml"
ROLES = ("detector", "embedder")
HEADER = """\
# Which detector and which embedder are served, in every profile, and what they were made from.
# Written by `python -m cropseek_export`; tests/unit/test_graft.py holds it to the files.
"""


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """What every table says.

    `file` is relative to the model repository; `sha256` is that of this file, `source_sha256` that
    of the FP32 ONNX file it was made from. `input_size` is a side in pixels.
    """

    name: str
    file: str
    sha256: str
    source_sha256: str
    source_package: str
    source_version: str
    source_file: str
    licence: str
    input_size: int
    preprocessing: str
    made_by: str
    made_with: str


@dataclass(frozen=True, kw_only=True)
class DetectorEntry(ModelEntry):
    """The `[detector]` table: also the class names and the suppression that is in the graph."""

    labels: str
    labels_sha256: str
    num_classes: int
    iou_threshold: float
    score_floor: float
    max_detections: int


@dataclass(frozen=True, kw_only=True)
class EmbedderEntry(ModelEntry):
    """The `[embedder]` table: also the vector's length and how the crops are cut."""

    dim: int
    crop_recipe: str


def read_manifest(repository: Path) -> dict[str, dict[str, Any]]:
    """Read `models.toml` of a model repository.

    Returns one mapping a role; empty when there is no file yet.
    Raises tomllib.TOMLDecodeError when the file is not TOML.
    """
    path = repository / FILE_NAME
    if not path.exists():
        return {}
    return tomllib.loads(path.read_text(encoding="utf-8"))


def write_entry(repository: Path, role: str, entry: ModelEntry) -> Path:
    """Put one table into `models.toml`, leaving the other as it is.

    role: "detector" or "embedder". Returns the file's path.
    Raises ValueError for another role.
    """
    if role not in ROLES:
        raise ValueError(f"role: expected one of {ROLES}, got {role!r}")
    tables = read_manifest(repository)
    tables[role] = {part.name: getattr(entry, part.name) for part in fields(entry)}
    path = repository / FILE_NAME
    write_bytes(path, render(tables).encode("utf-8"))
    return path


def render(tables: Mapping[str, Mapping[str, object]]) -> str:
    """Write the tables as TOML, in the order of `ROLES`.

    Raises TypeError for a value that is not text, a number or a truth value.
    """
    parts = [HEADER]
    for role in (name for name in ROLES if name in tables):
        lines = [f"{key} = {_toml_value(key, value)}" for key, value in tables[role].items()]
        parts.append("\n".join([f"[{role}]", *lines, ""]))
    return "\n".join(parts)


def write_bytes(path: Path, data: bytes) -> str:
    """Write a file so that a reader sees the old one or the new one; returns its sha256."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(data)
    os.replace(partial, path)
    return sha256_hex(data)


def _toml_value(key: str, value: object) -> str:
    """One TOML value; a JSON string without control characters is also a TOML basic string."""
    if isinstance(value, (str, bool)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (int, float)):
        return repr(value)
    raise TypeError(f"{key}: expected text, a number or a truth value, got {type(value).__name__}")
