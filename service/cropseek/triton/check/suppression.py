"""`# noqa: E009`: findings that a configuration says it knows of."""

from __future__ import annotations

import re

from cropseek.triton.check.findings import Finding

_NOQA = re.compile(
    r"#\s*noqa(?P<file>-file)?\s*:\s*(?P<codes>[A-Z]\d{3}\b(?:[\s,]+[A-Z]\d{3}\b)*)",
    re.IGNORECASE | re.ASCII,
)
# A string, or else a comment, whichever begins first.
_COMMENT = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|(?P<comment>#.*)")


Suppressions = dict[int | None, frozenset[str]]  # codes by line; None: of the whole file


def suppressions(text: str) -> Suppressions:
    """Return the codes that a text suppresses, by line."""
    found: Suppressions = {}
    for number, line in enumerate(text.split("\n"), 1):  # lines as the reader counts them
        comments = [match["comment"] for match in _COMMENT.finditer(line) if match["comment"]]
        for match in _NOQA.finditer(comments[0] if comments else ""):
            key = None if match["file"] else number
            codes = frozenset(re.split(r"[\s,]+", match["codes"].upper()))
            found[key] = found.get(key, frozenset()) | codes
    return found


def is_suppressed(finding: Finding, suppressions: Suppressions | None) -> bool:
    """Return whether a finding is suppressed where it stands, or in its whole file."""
    if not suppressions:
        return False
    codes = suppressions.get(None, frozenset()) | suppressions.get(finding.place.line, frozenset())
    return finding.rule.code in codes
