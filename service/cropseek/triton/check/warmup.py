"""Rules about warm-up requests."""

from __future__ import annotations

from collections.abc import Iterator

from cropseek.triton.check import shapes
from cropseek.triton.check.findings import Finding
from cropseek.triton.check.model import Model
from cropseek.triton.codec import FieldPath
from cropseek.triton.config import Input, Warmup, WarmupInput


def warmup_findings(model: Model) -> Iterator[Finding]:
    """Yield what is wrong with a model's warm-up requests."""
    if model.config.model_warmup and (model.backend == "ensemble" or model.calls_models):
        kind = "an ensemble" if model.backend == "ensemble" else "a model that calls others"
        yield model.finding(
            "W001", ("model_warmup",), f"model_warmup on {kind}", "warm up its members instead"
        )
    for number, request in enumerate(model.config.model_warmup):
        yield from _request(model, ("model_warmup", number), request)


def _request(model: Model, at: FieldPath, request: Warmup) -> Iterator[Finding]:
    limit, size = model.max_batch_size, request.batch_size or 0
    if limit is not None and not (size == 0 or 1 <= size <= max(limit, 1)):
        yield model.finding(
            "W004",
            (*at, "batch_size"),
            f"warm-up batch_size: expected 1 to {max(limit, 1)}, got {size}",
        )
    inputs = {tensor.name: tensor for tensor in model.config.input if tensor.name}
    for name, data in request.inputs.items():
        path = (*at, "inputs", name)
        if inputs and name not in inputs:
            yield model.finding(
                "W006",
                path,
                f"warm-up feeds {name!r}, which is no input",
                f"inputs: {', '.join(inputs)}",
            )
        elif name in inputs:
            yield from _fits(model, path, name, data, inputs[name])
        yield from _data(model, path, name, data)
    left_out = [n for n, t in inputs.items() if n not in request.inputs and not t.optional]
    for name in left_out:
        yield model.finding("W002", (*at, "inputs"), f"warm-up leaves out the input {name!r}")


def _fits(
    model: Model, path: FieldPath, name: str, data: WarmupInput, tensor: Input
) -> Iterator[Finding]:
    if data.data_type != tensor.data_type and tensor.data_type is not None:
        yield model.finding(
            "W003",
            (*path, "data_type"),
            f"warm-up of {name!r}: expected {tensor.data_type}, got {data.data_type or 'none'}",
        )
    if not shapes.fit(data.dims, tensor.dims) or -1 in data.dims:
        yield model.finding(
            "W003",
            (*path, "dims"),
            f"warm-up of {name!r}: expected dims like {shapes.text(tensor.dims)}, "
            f"got {shapes.text(data.dims)}",
            "without the batch dimension, every size given",
        )


def _data(model: Model, path: FieldPath, name: str, data: WarmupInput) -> Iterator[Finding]:
    if data.input_data_file is not None:
        file = model.folder / "warmup" / data.input_data_file.lstrip("/")
        if not file.is_file():
            yield model.finding(
                "W005",
                (*path, "input_data_file"),
                f"warm-up of {name!r}: no file warmup/{data.input_data_file} in the model's folder",
            )
    elif data.zero_data is None and data.random_data is None:
        yield model.finding(
            "W005",
            path,
            f"warm-up of {name!r} says nothing of its data",
            "zero_data: true, random_data: true, or input_data_file",
        )
