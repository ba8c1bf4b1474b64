"""Makes a scene of a repository and of what the checker found in it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from cropseek.triton.check.findings import Finding, Severity
from cropseek.triton.check.repository import Model, Repository
from cropseek.triton.check.wiring import Port as WiringPort
from cropseek.triton.check.wiring import Wire, named, steps_of, wires_of
from cropseek.triton.config import Input, InstanceGroup, Output, Step
from cropseek.triton.draw.scene import Box, Fault, Link, Port, Scene, Tensor

_BYTES = {
    "BOOL": 1,
    "UINT8": 1,
    "UINT16": 2,
    "UINT32": 4,
    "UINT64": 8,
    "INT8": 1,
    "INT16": 2,
    "INT32": 4,
    "INT64": 8,
    "FP16": 2,
    "FP32": 4,
    "FP64": 8,
    "BF16": 2,
}


def scene_of(
    repository: Repository, findings: Sequence[Finding], only: Collection[str] = ()
) -> Scene:
    """Return what is drawn of a repository: all, or `only` some models and what they use."""
    models = repository.models
    shown = _reachable(models, only) if only else set(models)
    composer = _Composer(models, findings, shown)
    boxes = composer.boxes()
    faults = [_fault(f) for f in findings if not only or f.model in shown or f.model in only]
    return Scene(
        repository.root.resolve().name or str(repository.root),
        repository.profile,
        tuple(boxes),
        tuple(composer.links(boxes)),
        tuple(sorted(faults, key=lambda fault: fault.severity)),
    )


def _reachable(models: Mapping[str, Model], names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    waiting = [name for name in names if name in models]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [user for user in _used(models[name]) if user in models]
    return found


def _used(model: Model) -> list[str]:
    return [*_members(model), *model.calls]


def _members(model: Model) -> list[str]:
    return [step.model_name for step in steps_of(model) if step.model_name and not _elsewhere(step)]


def _elsewhere(step: Step) -> bool:
    return bool(step.model_namespace)


class _Composer:
    """Makes boxes and links of models and findings."""

    def __init__(
        self, models: Mapping[str, Model], findings: Sequence[Finding], shown: set[str]
    ) -> None:
        self._models = models
        self._shown = [models[name] for name in models if name in shown]
        self._members = {name for model in self._shown for name in _members(model)}
        self._findings: dict[str, list[Finding]] = {}
        for finding in findings:
            self._findings.setdefault(finding.model, []).append(finding)
        self._users: dict[str, list[str]] = {}
        for model in models.values():
            for name in dict.fromkeys(_members(model)):
                self._users.setdefault(name, []).append(model.name)

    def boxes(self) -> list[Box]:
        """Return the boxes at the top, in the models' order, and what is called but absent."""
        called = {name for model in self._shown for name in model.calls}
        boxes = []
        for model in self._shown:
            if model.backend == "ensemble":
                boxes.append(self._ensemble(model))
            elif model.name not in self._members or model.name in called:
                boxes.append(self._own(model))
        absent = sorted(called - set(self._models))
        return [*boxes, *(Box(name, place="absent") for name in absent)]

    def links(self, boxes: Sequence[Box]) -> Iterator[Link]:
        """Yield which box at the top uses which."""
        for box in boxes:
            steps = [step.model for step in box.steps if not step.place]
            for name in dict.fromkeys([box.model, *steps]):
                yield from self._calls(box.model, name)

    def _calls(self, source: str, name: str) -> Iterator[Link]:
        model = self._models.get(name)
        for target in dict.fromkeys(model.calls if model else ()):
            absent = [
                _fault(finding)
                for finding in self._findings.get(name, [])
                if finding.rule.code == "B001" and f"{target!r}" in finding.message
            ]
            yield Link(source, target, name, tuple(absent))

    def _own(self, model: Model) -> Box:
        return Box(
            model.name,
            model.backend,
            model.max_batch_size,
            tuple(_instances(model.config.instance_group)) if model.backend != "ensemble" else (),
            inputs=_own_ports(model.config.input),
            outputs=_own_ports(model.config.output),
            also_in=tuple(self._users.get(model.name, ())),
            faults=tuple(map(_fault, self._findings.get(model.name, ()))),
        )

    def _ensemble(self, model: Model) -> Box:
        wires = wires_of(model, self._models)
        placed = _Placed(model, wires, self._findings.get(model.name, ()))
        sides = _Sides(wires, placed)
        steps = [
            self._step(model, number, step, sides, placed)
            for number, step in enumerate(steps_of(model))
        ]
        return replace(
            self._own(model),
            inputs=sides.ports(None, "producers"),
            outputs=sides.ports(None, "consumers"),
            steps=tuple(steps),
            faults=tuple(placed.elsewhere),
        )

    def _step(
        self, ensemble: Model, number: int, step: Step, sides: _Sides, placed: _Placed
    ) -> Box:
        name = step.model_name or "?"
        member = None if _elsewhere(step) else self._models.get(name)
        faults = placed.at_step.get(number, [])
        inputs, outputs = sides.ports(number, "consumers"), sides.ports(number, "producers")
        pinned = step.model_version if (step.model_version or 0) > 0 else None
        if member is None:
            place = step.model_namespace or "absent"
            return Box(name, place=place, inputs=inputs, outputs=outputs, faults=tuple(faults))
        unfed = tuple(_unfed(member, step, faults))
        own = self._own(member)
        at_ports = {fault for port in unfed for fault in port.faults}
        mine = () if member.backend == "ensemble" else own.faults  # its own frame shows them
        return replace(
            own,
            version=pinned,
            inputs=inputs + unfed,
            outputs=outputs,
            also_in=tuple(user for user in own.also_in if user != ensemble.name),
            faults=(*mine, *(fault for fault in faults if fault not in at_ports)),
        )


def _unfed(member: Model, step: Step, faults: Sequence[Fault]) -> Iterator[Port]:
    """Yield the inputs that a step leaves out, each with the finding about it."""
    for name, tensor in (named(member.config.input) or {}).items():
        if name not in step.input_map and not (isinstance(tensor, Input) and tensor.optional):
            about = [f for f in faults if f.code == "E004" and f"input {name!r}" in f.message]
            yield Port(name, None, _tensor(tensor), tuple(about))


class _Placed:
    """The findings about an ensemble by what they are about: a port, a step, or the rest."""

    def __init__(
        self, ensemble: Model, wires: Mapping[str, Wire], findings: Sequence[Finding]
    ) -> None:
        self.at_port: dict[tuple[str | int, ...], list[Fault]] = {}
        self.at_step: dict[int, list[Fault]] = {}
        self.elsewhere: list[Fault] = []
        self.place = ensemble.read.place
        steps = self._places_of_steps(len(steps_of(ensemble)))
        for finding in findings:
            if finding.tensor is not None and finding.tensor in wires:
                for port in self._ports(finding, wires[finding.tensor]):
                    self.at_port.setdefault(port.path, []).append(_fault(finding))
            elif finding.place in steps:
                self.at_step.setdefault(steps[finding.place], []).append(_fault(finding))
            else:
                self.elsewhere.append(_fault(finding))

    def _places_of_steps(self, count: int) -> dict[Any, int]:
        fields = ("input_map", "output_map", "model_name", "model_version")
        found = {}
        for number in range(count):
            path = ("ensemble_scheduling", "step", number)
            for place in (path, *((*path, name) for name in fields)):
                found[self.place(place)] = number
        return found

    def _ports(self, finding: Finding, wire: Wire) -> list[WiringPort]:
        """Return the ends of a wire that a finding is about; all of them if its place is none's."""
        ends = [*wire.producers, *wire.consumers]
        if finding.rule.code in ("E009", "E010"):  # about a pair: shown at its reader
            own = [port for port in wire.consumers if port.step is None]
            at = [port for port in wire.consumers if self.place(port.path) == finding.place]
            return at or own or ends
        return [port for port in ends if self.place(port.path) == finding.place] or ends


@dataclass(frozen=True)
class _Sides:
    """The ports of an ensemble and of its steps."""

    wires: Mapping[str, Wire]
    placed: _Placed

    def ports(self, step: int | None, side: Literal["producers", "consumers"]) -> tuple[Port, ...]:
        """Return the ports of one side of a step, or of the ensemble, in the written order."""
        found = [
            (wire.name, port)
            for wire in self.wires.values()
            for port in getattr(wire, side)
            if port.step == step
        ]
        found.sort(key=lambda item: self.placed.place(item[1].path))
        faults = self.placed.at_port
        return tuple(
            Port(port.key, name, _tensor(port.tensor), tuple(faults.get(port.path, ())))
            for name, port in found
        )


def _own_ports(tensors: Iterable[Input | Output]) -> tuple[Port, ...]:
    return tuple(Port(tensor.name or "?", None, _tensor(tensor)) for tensor in tensors)


def _tensor(tensor: Input | Output | None) -> Tensor | None:
    if tensor is None:
        return None
    kind = (tensor.data_type or "").removeprefix("TYPE_")
    size = _BYTES.get(kind)
    known = math.prod(dim for dim in tensor.dims if dim > 0)
    return Tensor(kind, tensor.dims, None if size is None else size * known)


def _instances(groups: Sequence[InstanceGroup]) -> Iterator[str]:
    for group in groups:
        kind = (group.kind or "KIND_AUTO").removeprefix("KIND_")
        what = kind if kind in ("CPU", "GPU") else kind.lower()
        gpus = f" {','.join(map(str, group.gpus))}" if group.gpus else ""
        yield f"{group.count or 1} x {what}{gpus}"
    if not groups:
        yield "1 x auto"


def _fault(finding: Finding) -> Fault:
    severity = "error" if finding.rule.severity is Severity.ERROR else "warning"
    return Fault(finding.rule.code, severity, finding.model, finding.message, finding.remedy)
