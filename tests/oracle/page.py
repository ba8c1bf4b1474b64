"""Renders the tables of docs/repo-check.md between their markers: python -m tests.oracle.page."""

from __future__ import annotations

import re
from pathlib import Path

from cropseek.triton.check import RULES
from tests.oracle.verdicts import table

DOCUMENT = Path(__file__).parents[2] / "docs" / "repo-check.md"
_MARKED = re.compile(r"(<!-- (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rendered(document: str) -> str:
    """Return the document with its tables made anew."""
    tables = {"rules": _rules, "verdicts": table}
    return _MARKED.sub(lambda m: m[1] + tables[m[2]]() + m[3], document)


def _rules() -> str:
    lines = ["| code | name | severity | why |\n", "|---|---|---|---|\n"]
    lines += [f"| {r.code} | {r.name} | {r.severity.value} | {r.why} |\n" for r in RULES.values()]
    return "".join(lines)


if __name__ == "__main__":
    DOCUMENT.write_text(rendered(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
