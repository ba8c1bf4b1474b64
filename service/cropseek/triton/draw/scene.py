"""What the drawing of a repository shows, without where: models, wires, calls and findings.

The ensembles, the models that no ensemble has as a member, and the models called by BLS stand at
the top. An ensemble holds a box for each of its steps, so a model may be shown several times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from cropseek.triton.check.findings import Finding
from cropseek.triton.draw.colors import COLORS


@dataclass(frozen=True)
class Tensor:
    """A row of a tensor, or all of it without batching.

    `row_bytes` counts a dim of -1 as 1; it is None if the type has no size of its own. What is not
    written is empty.
    """

    data_type: str
    dims: tuple[int, ...]
    row_bytes: int | None

    def __str__(self) -> str:
        """Return `3 x 640 x 640 UINT8, 1.2 MB`, or `-1 x 4 FP32, ? x 16 B`."""
        kind = " ".join(filter(None, [" x ".join(map(str, self.dims)), self.data_type]))
        if not self.dims:
            return kind
        size = "? B" if self.row_bytes is None else size_text(self.row_bytes)
        return f"{kind}, {'? x ' if -1 in self.dims and self.row_bytes else ''}{size}"


@dataclass(frozen=True)
class Port:
    """Where a tensor enters or leaves a model; `wire` is the ensemble's name for it, if any."""

    key: str
    wire: str | None
    tensor: Tensor | None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Box:
    """A model, or a step that uses one; an ensemble's steps are boxes within it.

    `max_batch_size` is None if the server completes it; `place` says what the repository does not
    have: "absent", or the namespace it is in.
    """

    model: str
    backend: str = ""
    max_batch_size: int | None = None
    instances: tuple[str, ...] = ()
    version: int | None = None
    place: str = ""
    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()
    steps: tuple[Box, ...] = ()
    also_in: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def group(self) -> str:
        """The backend by which it is coloured."""
        return self.backend if self.backend in COLORS else "other"

    @property
    def is_absent(self) -> bool:
        """Whether the repository should have it and does not."""
        return self.place == "absent"

    @property
    def facts(self) -> str:
        """Backend, batch size and instances in a line."""
        if self.is_absent:
            return "not in the repository"
        if self.place:
            return f"in namespace {self.place}"
        batch = {None: "max batch ?", 0: "no batching"}.get(
            self.max_batch_size, f"max batch {self.max_batch_size}"
        )
        version = [f"version {self.version}"] if self.version else []
        return " · ".join([self.backend or "no backend", batch, *self.instances, *version])


@dataclass(frozen=True)
class Link:
    """A call by BLS from a box at the top to another: `model` makes it, the box or a step in it."""

    source: str
    target: str
    model: str
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Scene:
    """A repository under a profile, as it is drawn; the findings are errors first."""

    repository: str
    profile: str | None
    boxes: tuple[Box, ...]
    links: tuple[Link, ...]
    findings: tuple[Finding, ...]

    @property
    def title(self) -> str:
        """Which repository, and which profile of it."""
        return f"{self.repository}, profile {self.profile}" if self.profile else self.repository

    @property
    def models(self) -> int:
        """How many models of the repository are shown."""
        shown = [box for top in self.boxes for box in (top, *top.steps)]
        return len({box.model for box in shown if not box.place})


def size_text(count: int) -> str:
    """Return a number of bytes in decimal units."""
    size, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 999.5:
            break
        size, unit = size / 1000, larger
    return f"{size:.1f} {unit}" if unit != "B" and size < 99.95 else f"{size:.0f} {unit}"


def worst(findings: Iterable[Finding]) -> str:
    """Return "error", "warning", or "" without a finding."""
    found = sorted({finding.rule.severity for finding in findings}, key=lambda each: each.rank)
    return found[0].value if found else ""


def codes(findings: Iterable[Finding], most: int = 3) -> str:
    """Return the codes of findings, each once, errors first."""
    ordered = sorted(findings, key=lambda finding: finding.rule.severity.rank)
    listed = list(dict.fromkeys(finding.rule.code for finding in ordered))
    more = [f"+{len(listed) - most}"] if len(listed) > most else []
    return " ".join([*listed[:most], *more])


def sentence(finding: Finding) -> str:
    """Return the model and what is wrong with it."""
    return f"{finding.model}: {finding.message}" if finding.model else finding.message


End = tuple[int | None, int]  # a port: which step's, None for the ensemble's own, and its number
Role = Literal["writers", "readers"]


def ends_of(ensemble: Box, role: Role) -> Iterator[tuple[End, Port]]:
    """Yield the ports of an ensemble that write, or read, its tensors."""
    if role == "writers":
        yield from (((None, index), port) for index, port in enumerate(ensemble.inputs))
    for number, step in enumerate(ensemble.steps):
        ports = step.outputs if role == "writers" else step.inputs
        yield from (((number, index), port) for index, port in enumerate(ports))
    if role == "readers":
        yield from (((None, index), port) for index, port in enumerate(ensemble.outputs))


def port_at(ensemble: Box, end: End, role: Role) -> Port:
    """Return the port at an end."""
    step, index = end
    if step is None:
        return (ensemble.inputs if role == "writers" else ensemble.outputs)[index]
    member = ensemble.steps[step]
    return (member.outputs if role == "writers" else member.inputs)[index]


def edges_of(ensemble: Box) -> Iterator[tuple[End, End]]:
    """Yield who writes and who reads each tensor."""
    readers: dict[str, list[End]] = {}
    for end, port in ends_of(ensemble, "readers"):
        if port.wire is not None:
            readers.setdefault(port.wire, []).append(end)
    for writer, port in ends_of(ensemble, "writers"):
        yield from ((writer, reader) for reader in readers.get(port.wire or "", []))
