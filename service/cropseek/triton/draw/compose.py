"""Makes a scene of a repository and of what the checker found in it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from cropseek.triton.check.findings import Finding
from cropseek.triton.check.model import Model
from cropseek.triton.check.repository import Repository
from cropseek.triton.check.wires import Wire, named, steps_of, unfed_inputs, wires_of
from cropseek.triton.codec import FieldPath
from cropseek.triton.config import Input, InstanceGroup, Output, Step
from cropseek.triton.draw.scene import Box, Link, Port, Scene, Tensor

_STEPS: FieldPath = ("ensemble_scheduling", "step")
_UNFED = "E004"  # about an input of a step's member
_ABOUT_PAIRS = ("E009", "E010")  # about who writes a tensor and who reads it
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
    told = [f for f in findings if not only or f.model in shown or f.model in only]
    return Scene(
        repository.root.resolve().name or str(repository.root),
        repository.profile,
        tuple(boxes),
        tuple(composer.links(boxes)),
        tuple(sorted(told, key=lambda finding: finding.rule.severity.rank)),
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
            is_absent = target not in self._models
            absent = [f for f in self._findings.get(name, ()) if f.rule.code == "B001"]
            yield Link(source, target, name, tuple(absent) if is_absent else ())

    def _own(self, model: Model) -> Box:
        config = model.config
        paths: list[FieldPath] = [("input", number) for number in range(len(config.input))]
        paths += [("output", number) for number in range(len(config.output))]
        at = _by_place(((f.field, f) for f in self._findings.get(model.name, ())), paths)

        def ports(side: str, tensors: Sequence[Input | Output]) -> tuple[Port, ...]:
            return tuple(
                Port(tensor.name or "?", None, _tensor(tensor), tuple(at.get((side, number), ())))
                for number, tensor in enumerate(tensors)
            )

        return Box(
            model.name,
            model.backend,
            model.max_batch_size,
            tuple(_instances(config.instance_group)) if model.backend != "ensemble" else (),
            inputs=ports("input", config.input),
            outputs=ports("output", config.output),
            also_in=tuple(self._users.get(model.name, ())),
            findings=tuple(at.get((), ())),
        )

    def _ensemble(self, model: Model) -> Box:
        wiring = _Wiring(model, wires_of(model, self._models), self._findings.get(model.name, ()))
        steps = [self._step(model, wiring, number) for number in range(len(steps_of(model)))]
        return replace(
            self._own(model),
            inputs=wiring.ports(None, "producers"),
            outputs=wiring.ports(None, "consumers"),
            steps=tuple(steps),
            findings=wiring.at(()),
        )

    def _step(self, ensemble: Model, wiring: _Wiring, number: int) -> Box:
        step = steps_of(ensemble)[number]
        name = step.model_name or "?"
        member = None if _elsewhere(step) else self._models.get(name)
        findings = wiring.at((*_STEPS, number))
        inputs, outputs = wiring.ports(number, "consumers"), wiring.ports(number, "producers")
        if member is None:
            place = step.model_namespace or "absent"
            return Box(name, place=place, inputs=inputs, outputs=outputs, findings=findings)
        own = self._own(member)
        inputs += _unfed(member, step, [f for f in findings if f.rule.code == _UNFED])
        findings = tuple(f for f in findings if f.rule.code != _UNFED)
        if member.backend != "ensemble":  # whose own frame shows what is found about it
            findings += own.findings
            inputs, more = _with_own(inputs, own.inputs)
            outputs, others = _with_own(outputs, own.outputs)
            findings += (*more, *others)
        return replace(
            own,
            version=step.model_version if (step.model_version or 0) > 0 else None,
            inputs=inputs,
            outputs=outputs,
            also_in=tuple(user for user in own.also_in if user != ensemble.name),
            findings=findings,
        )


def _unfed(member: Model, step: Step, findings: Sequence[Finding]) -> tuple[Port, ...]:
    """Return the inputs that a step leaves out, with the findings about that."""
    inputs = named(member.config.input) or {}
    names = unfed_inputs(inputs, step)
    return tuple(Port(name, None, _tensor(inputs[name]), tuple(findings)) for name in names)


def _with_own(
    ports: tuple[Port, ...], own: tuple[Port, ...]
) -> tuple[tuple[Port, ...], list[Finding]]:
    """Return a step's ports with what is found about the member's own; and about those not here."""
    shown = {port.key for port in ports}
    found: dict[str, tuple[Finding, ...]] = {}
    for port in own:
        found[port.key] = (*found.get(port.key, ()), *port.findings)
    both = (replace(port, findings=(*port.findings, *found.get(port.key, ()))) for port in ports)
    return tuple(both), [f for port in own if port.key not in shown for f in port.findings]


def _by_place(
    findings: Iterable[tuple[FieldPath, Finding]], places: Iterable[FieldPath]
) -> dict[FieldPath, list[Finding]]:
    """Return findings by the innermost place that their path is or lies in; the rest at ()."""
    known = set(places)
    found: dict[FieldPath, list[Finding]] = {}
    for path, finding in findings:
        while path and path not in known:
            path = path[:-1]
        found.setdefault(path, []).append(finding)
    return found


class _Wiring:
    """The ports of an ensemble and of its steps, with the findings about it by their place."""

    def __init__(
        self, ensemble: Model, wires: Mapping[str, Wire], findings: Iterable[Finding]
    ) -> None:
        self._wires = wires
        self._place = ensemble.read.place
        places: list[FieldPath] = [(*_STEPS, number) for number in range(len(steps_of(ensemble)))]
        for wire in wires.values():
            places += (port.path for port in (*wire.producers, *wire.consumers))
        self._found = _by_place(((self._path(finding), finding) for finding in findings), places)

    def _path(self, finding: Finding) -> FieldPath:
        """Return where a finding is shown; one about a writer and a reader at the reader."""
        wire = self._wires.get(finding.tensor or "")
        if wire is not None and finding.rule.code in _ABOUT_PAIRS:
            if finding.field in [port.path for port in wire.producers]:
                return next((p.path for p in wire.consumers if p.step is None), finding.field)
        return finding.field

    def at(self, path: FieldPath) -> tuple[Finding, ...]:
        """Return the findings at a port or a step; at () those about neither."""
        return tuple(self._found.get(path, ()))

    def ports(self, step: int | None, side: Literal["producers", "consumers"]) -> tuple[Port, ...]:
        """Return the ports of one side of a step, or of the ensemble, in the written order."""
        found = [
            (wire.name, port)
            for wire in self._wires.values()
            for port in getattr(wire, side)
            if port.step == step
        ]
        found.sort(key=lambda item: self._place(item[1].path))
        return tuple(
            Port(port.key, name, _tensor(port.tensor), self.at(port.path)) for name, port in found
        )


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
