"""Rules about the text of a configuration."""

from __future__ import annotations

from collections.abc import Iterator

from cropseek.triton.check.findings import Finding
from cropseek.triton.check.model import Model
from cropseek.triton.check.rules import RULES
from cropseek.triton.pbtxt import Kind

_CODES = {
    Kind.SYNTAX: "S001",
    Kind.UNKNOWN_FIELD: "S002",
    Kind.VALUE: "S003",
    Kind.REPEATED: "S004",
    Kind.MAP_ENTRY: "S005",
}


def text_findings(model: Model) -> Iterator[Finding]:
    """Yield what is wrong with the text of a configuration."""
    for path, keys in model.read.map_keys.items():
        for key in sorted({key for key in keys if keys.count(key) > 1}):
            yield model.finding(
                "S008", (*path, str(key)), f"{path[-1]}: {key!r} stands twice", "remove one"
            )
    for fault in model.faults:
        yield Finding(
            RULES[_CODES[fault.kind]],
            model.name,
            model.file,
            fault.place,
            fault.message,
            fault.remedy,
        )
