"""Rules about how an ensemble is wired."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cropseek.triton.check import shapes
from cropseek.triton.check.calls import cycles, models_there
from cropseek.triton.check.findings import Finding
from cropseek.triton.check.model import Model
from cropseek.triton.check.wires import (
    Models,
    Port,
    Side,
    Wire,
    member_of,
    named,
    steps_of,
    unfed_inputs,
    unknown_inputs,
    wires_of,
)
from cropseek.triton.codec import FieldPath
from cropseek.triton.config import Input, Output, Step


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
            "its max_batch_size and dims decide: batches that large, or a first dim of -1",
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
    member = member_of(ensemble, step, models)
    if step.model_name not in models:
        yield ensemble.finding(
            "E001",
            (*at, "model_name"),
            f"there is no model {step.model_name!r}",
            models_there(step.model_name, models, but=ensemble.name),
        )
    if member is None:
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
    lists_none = not tensors and not member.faults and not member.is_completed
    return {} if lists_none else named(tensors)


def _keys(ensemble: Model, at: FieldPath, step: Step, member: Model) -> Iterator[Finding]:
    inputs, outputs = _listed(member, "input"), _listed(member, "output")
    if inputs is not None:
        unknown, unfed = unknown_inputs(inputs, step), unfed_inputs(inputs, step)
        for key in unknown:
            yield ensemble.finding(
                "E002",
                (*at, "input_map", key),
                f"{member.name!r} has no input {key!r}",
                f"its inputs: {_described(inputs)}",
                step.input_map[key],
            )
        misnamed = unknown[0] if len(unknown) == len(unfed) == 1 else None
        value, instead = (step.input_map[misnamed], f" for {misnamed!r}") if misnamed else ("…", "")
        for name in unfed:
            yield ensemble.finding(
                "E004",
                (*at, "input_map"),
                f"{member.name!r} needs its input {name!r} ({described(inputs[name])})",
                f'input_map {{ key: "{name}" value: "{value}" }}{instead}',
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
    may_be_absent = isinstance(one, Input) and one.optional  # an input of the ensemble's own
    if may_be_absent and isinstance(other, Input) and not other.optional:
        yield ensemble.finding(
            "E004",
            _place(producer, consumer),
            f"{consumer.model!r} needs its input {other.name!r}, and {wire.name!r} is optional",
            "",
            wire.name,
        )
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
    if any(not tensor.dims and tensor.reshape is None for tensor in (one.tensor, other.tensor)):
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
    """Return why not every batch gets into a step where only one end of a wire batches."""
    if consumer.step is None or producer.batches is None or consumer.batches is None:
        return {}
    if bool(producer.batches) == bool(consumer.batches) or not _shapes_fit(producer, consumer):
        return {}
    assert producer.tensor is not None
    assert consumer.tensor is not None
    in_full = _fit_in_full(producer, consumer)
    member = repr(consumer.model)
    if consumer.batches:
        rows = producer.tensor.dims[0] if in_full else 1
        if rows <= consumer.batches:
            return {}
        return {
            consumer.step: f"{producer.key!r} has {rows} rows, {member} takes batches of "
            f"{consumer.batches} at most"
        }
    rows = consumer.tensor.dims[0] if in_full else 1
    size = ensemble.max_batch_size or 0
    if size <= 1 or rows == -1:
        return {}
    takes = f"exactly {rows} rows" if in_full else "no batches"
    return {
        consumer.step: f"the ensemble takes batches of {size}, its member {member} takes {takes}"
    }


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
