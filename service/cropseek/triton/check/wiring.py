"""How an ensemble's tensors run between its members, and the rules about that.

A *wire* is a tensor of an ensemble by the ensemble's own name for it; its *ports* are where it is
written and read: an input or output of a member, or of the ensemble itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from cropseek.triton.check import shapes
from cropseek.triton.check.findings import Finding
from cropseek.triton.check.repository import Model
from cropseek.triton.codec import FieldPath
from cropseek.triton.config import Input, Output, Step

_MOST_LISTED = 10
Models = Mapping[str, Model]
Side = Literal["input", "output"]


@dataclass(frozen=True)
class Port:
    """An end of a wire: a tensor `key` of a model; `step` is None at the ensemble's own.

    `tensor` is what that model's configuration says of it, None if that is not known; `batches` its
    max_batch_size; `path` is where the ensemble's configuration maps it.
    """

    model: str
    step: int | None
    key: str
    tensor: Input | Output | None
    batches: int | None
    path: FieldPath


@dataclass
class Wire:
    """A tensor of an ensemble, with who writes and who reads it."""

    name: str
    producers: list[Port] = field(default_factory=list)
    consumers: list[Port] = field(default_factory=list)


def steps_of(model: Model) -> tuple[Step, ...]:
    """Return the steps of an ensemble; none for other models."""
    scheduling = model.config.ensemble_scheduling
    return scheduling.step if scheduling is not None else ()


def named(tensors: Iterable[Input | Output]) -> dict[str, Input | Output] | None:
    """Return tensors by name; None if there are none or not all have one: nothing to hold on to."""
    listed = list(tensors)
    if not listed or not all(tensor.name for tensor in listed):
        return None
    return {str(tensor.name): tensor for tensor in listed}


def wires_of(ensemble: Model, models: Models) -> dict[str, Wire]:
    """Return the tensors of an ensemble by name."""
    wires: dict[str, Wire] = {}

    def wire(name: str) -> Wire:
        return wires.setdefault(name, Wire(name))

    batches = ensemble.max_batch_size
    for number, tensor in enumerate(ensemble.config.input):
        if tensor.name:
            path: FieldPath = ("input", number)
            port = Port(ensemble.name, None, tensor.name, _inside(tensor), batches, path)
            wire(tensor.name).producers.append(port)
    for number, step in enumerate(steps_of(ensemble)):
        member = models.get(step.model_name or "")
        for key, name in step.input_map.items():
            wire(name).consumers.append(_member_port(member, step, number, "input", key))
        for key, name in step.output_map.items():
            wire(name).producers.append(_member_port(member, step, number, "output", key))
    for number, output in enumerate(ensemble.config.output):
        if output.name:
            path = ("output", number)
            port = Port(ensemble.name, None, output.name, _inside(output), batches, path)
            wire(output.name).consumers.append(port)
    return wires


def _inside(tensor: Input | Output) -> Input | Output:
    """Return an ensemble's own tensor as its steps see it: in its reshaped form."""
    return replace(tensor, dims=tensor.reshape.shape) if tensor.reshape is not None else tensor


def _member_port(member: Model | None, step: Step, number: int, side: Side, key: str) -> Port:
    path: FieldPath = ("ensemble_scheduling", "step", number, f"{side}_map", key)
    if member is None:
        return Port(step.model_name or "", number, key, None, None, path)
    tensor = (named(getattr(member.config, side)) or {}).get(key)
    if tensor is None and side == "input":
        tensor = _meant(member, step, key)
    return Port(member.name, number, key, tensor, member.max_batch_size, path)


def _meant(member: Model, step: Step, key: str) -> Input | Output | None:
    """Return the input that an unknown key stands for: the only one that nothing else feeds."""
    inputs = named(member.config.input)
    if inputs is None:
        return None
    unknown, unfed = _unknown(inputs, step), unfed_inputs(inputs, step)
    return inputs[unfed[0]] if unknown == [key] and len(unfed) == 1 else None


def _unknown(inputs: Mapping[str, Input | Output], step: Step) -> list[str]:
    return [key for key in step.input_map if key not in inputs]


def unfed_inputs(inputs: Mapping[str, Input | Output], step: Step) -> list[str]:
    """Return the inputs of a member that its step leaves out and must not."""
    return [
        name
        for name, tensor in inputs.items()
        if name not in step.input_map and not (isinstance(tensor, Input) and tensor.optional)
    ]


def wiring_findings(ensemble: Model, models: Models) -> Iterator[Finding]:
    """Yield what is wrong with an ensemble's wiring; nothing for another model."""
    if not steps_of(ensemble):
        return
    for number, step in enumerate(steps_of(ensemble)):
        yield from _step(ensemble, models, number, step)
    wires = wires_of(ensemble, models)
    limits: dict[int, str] = {}  # why not every batch fits a step's model; one reason is enough
    for wire in wires.values():
        yield from _ends(ensemble, wire)
        for producer, consumer in _pairs(wire):
            yield from _types(ensemble, wire, producer, consumer)
            yield from _shapes(ensemble, wire, producer, consumer)
            limits |= _limit(ensemble, producer, consumer)
    for number, said in sorted(limits.items()):
        yield ensemble.finding(
            "E012",
            ("ensemble_scheduling", "step", number),
            said,
            "give it max_batch_size, or a first dim of -1 without it",
        )
    yield from _data_cycle(ensemble, wires)


def _step(ensemble: Model, models: Models, number: int, step: Step) -> Iterator[Finding]:
    at: FieldPath = ("ensemble_scheduling", "step", number)
    if not step.model_name:
        yield ensemble.finding("E014", at, f"step {number + 1} names no model", 'model_name: "…"')
        return
    for side in ("input_map", "output_map"):
        if not getattr(step, side) and (*at, side) not in ensemble.read.places:
            yield ensemble.finding(
                "E014", at, f"step {step.model_name!r} has no {side}", f"{side} {{ key value }}"
            )
    if step.model_namespace:
        return  # a model of another repository
    member = models.get(step.model_name)
    if member is None:
        yield ensemble.finding(
            "E001",
            (*at, "model_name"),
            f"there is no model {step.model_name!r}",
            _models(step.model_name, models, but=ensemble.name),
        )
        return
    yield from _keys(ensemble, at, step, member)
    yield from _batch_size(ensemble, at, member)
    version = step.model_version or 0
    if version != -1 and version not in member.served_versions:
        served = ", ".join(map(str, member.served_versions)) or "none"
        left_out = " (which model_version is if left out)" if step.model_version is None else ""
        yield ensemble.finding(
            "E016",
            (*at, "model_version"),
            f"version {version}{left_out} of {member.name!r} is not served",
            f"model_version: -1 for the newest; served: {served}",
        )


def _listed(member: Model, side: Side) -> dict[str, Input | Output] | None:
    """Return a member's tensors; none of a model that lists none and that nothing completes."""
    tensors = getattr(member.config, side)
    return {} if not tensors and not member.is_completed else named(tensors)


def _keys(ensemble: Model, at: FieldPath, step: Step, member: Model) -> Iterator[Finding]:
    inputs, outputs = _listed(member, "input"), _listed(member, "output")
    if inputs is not None:
        for key in _unknown(inputs, step):
            yield ensemble.finding(
                "E002",
                (*at, "input_map", key),
                f"{member.name!r} has no input {key!r}",
                f"its inputs: {_described(inputs)}",
                step.input_map[key],
            )
        for name in unfed_inputs(inputs, step):
            yield ensemble.finding(
                "E004",
                (*at, "input_map"),
                f"{member.name!r} needs its input {name!r} ({described(inputs[name])})",
                f'input_map {{ key: "{name}" value: "…" }}',
            )
    if outputs is None:
        return
    for key in step.output_map:
        if key not in outputs:
            yield ensemble.finding(
                "E003",
                (*at, "output_map", key),
                f"{member.name!r} has no output {key!r}",
                f"its outputs: {_described(outputs)}",
                step.output_map[key],
            )
    if member.backend == "dali":
        for name in outputs:
            if name not in step.output_map:
                yield ensemble.finding(
                    "E015",
                    (*at, "output_map"),
                    f"the DALI model {member.name!r} has an output {name!r} that is not mapped",
                    f'output_map {{ key: "{name}" value: "…" }}, and read it or hand it out',
                )


def _models(meant: str, models: Models, but: str) -> str:
    """Return which models there are, those first that are called much as the one meant."""
    others = sorted(set(models) - {but})
    near = get_close_matches(meant, others, 3)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    if len(others) > _MOST_LISTED:
        return f"models: {', '.join(others[:_MOST_LISTED])} and {len(others) - _MOST_LISTED} more"
    return f"models: {', '.join(others) or 'none'}"


def described(tensor: Input | Output) -> str:
    """Return a tensor's type and dims in short: `INT64 [ 1 ]`."""
    kind = (tensor.data_type or "no type").removeprefix("TYPE_")
    return f"{kind} {shapes.text(tensor.dims)}"


def _described(tensors: Mapping[str, Input | Output]) -> str:
    return ", ".join(f"{name} ({described(tensor)})" for name, tensor in tensors.items())


def _batch_size(ensemble: Model, at: FieldPath, member: Model) -> Iterator[Finding]:
    mine, its = ensemble.max_batch_size, member.max_batch_size
    if mine and its and its < mine:
        yield ensemble.finding(
            "E012",
            at,
            f"the ensemble takes batches of {mine}, its member {member.name!r} of {its}",
            f"max_batch_size: {its}, or more in {member.name!r}",
        )


def _ends(ensemble: Model, wire: Wire) -> Iterator[Finding]:
    if not wire.producers:
        for port in wire.consumers:
            if port.step is None:
                yield ensemble.finding(
                    "E006",
                    port.path,
                    f"no step writes the output {wire.name!r}",
                    "map an output of a step to it",
                    wire.name,
                )
            else:
                yield ensemble.finding(
                    "E005",
                    port.path,
                    f"{port.model!r} reads {wire.name!r}, which nobody writes",
                    "",
                    wire.name,
                )
    for port in wire.producers[1:]:
        first = wire.producers[0]
        yield ensemble.finding(
            "E008",
            port.path,
            f"{wire.name!r} is written by {port.model!r} too, first by {first.model!r}",
            "give each its own name",
            wire.name,
        )
    if not wire.consumers:
        port = wire.producers[0]
        if port.step is None:
            yield ensemble.finding(
                "E007", port.path, f"no step reads the input {wire.name!r}", "", wire.name
            )
        else:
            yield ensemble.finding(
                "E013",
                port.path,
                f"nobody reads {wire.name!r}",
                "leave out its output_map entry, or read it",
                wire.name,
            )


def _pairs(wire: Wire) -> Iterator[tuple[Port, Port]]:
    for producer in wire.producers[:1]:
        for consumer in wire.consumers:
            if producer.tensor is not None and consumer.tensor is not None:
                yield producer, consumer


def _place(producer: Port, consumer: Port) -> FieldPath:
    return consumer.path if consumer.step is not None else producer.path


def _types(ensemble: Model, wire: Wire, producer: Port, consumer: Port) -> Iterator[Finding]:
    one, other = producer.tensor, consumer.tensor
    assert one is not None
    assert other is not None
    if one.data_type and other.data_type and one.data_type != other.data_type:
        yield ensemble.finding(
            "E009",
            _place(producer, consumer),
            f"{wire.name!r} is {one.data_type} from {_title(producer)}, "
            f"{other.data_type} at {_title(consumer)}",
            "",
            wire.name,
        )


def _shapes(ensemble: Model, wire: Wire, producer: Port, consumer: Port) -> Iterator[Finding]:
    if not _shapes_fit(producer, consumer):
        yield ensemble.finding(
            "E010",
            _place(producer, consumer),
            f"{wire.name!r} is {_shape_text(producer)} from {_title(producer)}, "
            f"{_shape_text(consumer)} at {_title(consumer)}",
            "",
            wire.name,
        )


def _title(port: Port) -> str:
    if port.step is None:
        return "the ensemble"
    meant = f" for {port.tensor.name}" if port.tensor and port.tensor.name != port.key else ""
    return f"{port.model!r} ({port.key}{meant})"


def _shapes_fit(one: Port, other: Port) -> bool:
    """Compare as the server does: row by row, or in full if only one end batches."""
    assert one.tensor is not None
    assert other.tensor is not None
    if not one.tensor.dims or not other.tensor.dims:
        return True  # what is not written may be anything
    if one.batches is None or other.batches is None:
        # Who batches is not written: right if any reading fits.
        return any(
            shapes.fit(shapes.full(one.tensor.dims, a), shapes.full(other.tensor.dims, b))
            for a in ([one.batches] if one.batches is not None else [0, 1])
            for b in ([other.batches] if other.batches is not None else [0, 1])
        )
    return shapes.fit(one.tensor.dims, other.tensor.dims) or _fit_in_full(one, other)


def _fit_in_full(one: Port, other: Port) -> bool:
    assert one.tensor is not None
    assert other.tensor is not None
    if one.batches is None or other.batches is None or bool(one.batches) == bool(other.batches):
        return False
    return shapes.fit(
        shapes.full(one.tensor.dims, one.batches), shapes.full(other.tensor.dims, other.batches)
    )


def _limit(ensemble: Model, producer: Port, consumer: Port) -> dict[int, str]:
    """Return why not every batch passes where one end batches and the other is one whole tensor."""
    if producer.batches is None or consumer.batches is None:
        return {}
    if bool(producer.batches) == bool(consumer.batches):
        return {}
    whole, batching = sorted((producer, consumer), key=lambda port: bool(port.batches))
    assert whole.tensor is not None
    in_full = _fit_in_full(producer, consumer)
    rows = whole.tensor.dims[0] if in_full else 1
    if rows > (batching.batches or 0):
        step = batching.step if batching.step is not None else whole.step
        said = f"{rows} rows are written out in dims, batches are of {batching.batches} at most"
        return {step: said} if step is not None else {}
    size = ensemble.max_batch_size or 0
    if size > 1 and rows != -1 and whole.step is not None:
        takes = f"of exactly {rows}" if in_full else "none"
        said = f"the ensemble takes batches of {size}, its member {whole.model!r} takes {takes}"
        return {whole.step: said}
    return {}


def _shape_text(port: Port) -> str:
    assert port.tensor is not None
    if port.batches is None:
        return shapes.text(port.tensor.dims)
    return shapes.text(port.tensor.dims) + (" a row" if port.batches > 0 else "")


def _data_cycle(ensemble: Model, wires: Mapping[str, Wire]) -> Iterator[Finding]:
    steps = steps_of(ensemble)
    waits_for: dict[str, list[str]] = {str(number): [] for number in range(len(steps))}
    for wire in wires.values():
        for consumer in wire.consumers:
            for producer in wire.producers:
                if consumer.step is not None and producer.step is not None:
                    waits_for[str(consumer.step)].append(str(producer.step))
    for cycle in cycles(waits_for):
        names = [steps[int(number)].model_name or f"step {number}" for number in cycle]
        yield ensemble.finding(
            "E011",
            ("ensemble_scheduling", "step", int(cycle[0])),
            f"these steps wait for each other: {' → '.join([*names, names[0]])}",
        )


def member_findings(models: Models) -> Iterator[Finding]:
    """Yield members of ensembles that could batch and do not."""
    members = {step.model_name for model in models.values() for step in steps_of(model)}
    for name in sorted(members & set(models), key=str):
        model = models[str(name)]
        config = model.config
        batches = config.dynamic_batching is not None or config.sequence_batching is not None
        if (config.max_batch_size or 0) > 1 and not batches and model.backend != "ensemble":
            yield model.finding(
                "D006",
                ("max_batch_size",),
                f"max_batch_size {config.max_batch_size}, but requests are not put together",
                "dynamic_batching { }",
            )


def call_findings(models: Models) -> Iterator[Finding]:
    """Yield what is wrong with who calls whom: ensembles their members, BLS what it declares."""
    calls: dict[str, list[str]] = {}
    for model in models.values():
        members = [step.model_name for step in steps_of(model) if step.model_name]
        calls[model.name] = [name for name in [*members, *model.calls] if name in models]
        for name in model.calls:
            if name not in models:
                yield model.finding(
                    "B001",
                    ("parameters", "bls_models"),
                    f"it calls {name!r}, which is not in the repository",
                    _models(name, models, but=model.name),
                )
    for cycle in cycles(calls):
        model = models[cycle[0]]
        path: FieldPath = ("parameters", "bls_models") if model.calls else ("ensemble_scheduling",)
        by_bls = any(models[name].calls for name in cycle)
        said = f"these models call each other: {' → '.join([*cycle, cycle[0]])}"
        yield model.finding("B002" if by_bls else "E011", path, said)


def cycles(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return cycles of a graph so that without one edge of each it has none left."""
    left = {node: set(targets) for node, targets in edges.items()}
    order = {node: number for number, node in enumerate(edges)}
    found: list[list[str]] = []
    while True:
        try:
            TopologicalSorter(left).prepare()
            return sorted(found, key=lambda cycle: order[cycle[0]])
        except CycleError as error:
            # Each node of its cycle is a target of the next one; the last is the first again.
            cycle: list[str] = error.args[1][:0:-1]
            left[cycle[-1]].discard(cycle[0])
            first = cycle.index(min(cycle, key=order.__getitem__))
            found.append(cycle[first:] + cycle[:first])
