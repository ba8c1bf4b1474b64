"""What the checker says: findings, each of a rule with a code."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

from cropseek.triton.codec import FieldPath
from cropseek.triton.pbtxt import Place


class Severity(enum.Enum):
    """How bad a finding is, the worst first."""

    ERROR = "error"  # the server refuses it, or requests fail
    WARNING = "warning"  # it works, and is probably not what was meant

    @property
    def rank(self) -> int:
        """Its place in that order, to sort by."""
        return list(Severity).index(self)


@dataclass(frozen=True)
class Rule:
    """A rule: its code, what it is called, how bad a breach is, and why it exists."""

    code: str
    name: str
    severity: Severity
    why: str


@dataclass(frozen=True)
class Finding:
    """A breach of a rule in a model: where, what is wrong, and what to do.

    `field` is the path of the configuration's field that it is about, empty if it is about more;
    `tensor` the ensemble's name of a tensor that it is about.
    """

    rule: Rule
    model: str
    file: Path
    place: Place
    message: str
    remedy: str = ""
    field: FieldPath = ()
    tensor: str | None = None
