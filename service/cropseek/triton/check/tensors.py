"""Rules about the inputs and outputs of one model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from cropseek.triton.check import shapes
from cropseek.triton.check.findings import Finding
from cropseek.triton.check.model import Model
from cropseek.triton.codec import FieldPath
from cropseek.triton.config import Input, Output


def tensor_findings(model: Model) -> Iterator[Finding]:
    """Yield what is wrong with the inputs and outputs."""
    config = model.config
    sides: list[tuple[str, Sequence[Input | Output]]] = [
        ("input", config.input),
        ("output", config.output),
    ]
    for kind, tensors in sides:
        seen: dict[str, int] = {}
        for number, tensor in enumerate(tensors):
            path = (kind, number)
            yield from _one_tensor(model, path, tensor)
            if tensor.name and tensor.name in seen:
                yield model.finding(
                    "T002",
                    (*path, "name"),
                    f"{kind} {tensor.name!r} stands twice, first as number {seen[tensor.name] + 1}",
                    "remove or rename one",
                )
            elif tensor.name:
                seen[tensor.name] = number


def _one_tensor(model: Model, path: FieldPath, tensor: Input | Output) -> Iterator[Finding]:
    kind, number = str(path[0]), int(path[1])
    title = f"{kind} {tensor.name!r}" if tensor.name else f"{kind} number {number + 1}"
    if not tensor.name:
        yield model.finding("T001", path, f"{title} has no name", 'name: "…"')
    written = tensor.data_type is not None or (*path, "data_type") in model.read.places
    if not (written or model.is_completed) or tensor.data_type == "TYPE_INVALID":
        yield model.finding("T003", (*path, "data_type"), f"{title} has no data_type")
    if not tensor.dims and not model.is_completed:
        yield model.finding("T004", (*path, "dims"), f"{title} has no dims")
    for dim in tensor.dims:
        if dim == 0 or dim < -1:
            yield model.finding(
                "T005", (*path, "dims"), f"{title}: a dim is -1 or at least 1, got {dim}"
            )
            break
    else:
        yield from _reshape(model, path, title, tensor)
    if isinstance(tensor, Input):
        yield from _input_only(model, path, title, tensor)


def _reshape(
    model: Model, path: FieldPath, title: str, tensor: Input | Output
) -> Iterator[Finding]:
    if tensor.reshape is None or not tensor.dims:
        return
    dims, shape = tensor.dims, tensor.reshape.shape
    where = (*path, "reshape")
    wrong = f"{title}: dims {shapes.text(dims)} cannot become {shapes.text(shape)}"
    if not shape and model.max_batch_size == 0:
        yield model.finding("T006", where, f"{title}: an empty reshape without batching")
    elif any(dim == 0 or dim < -1 for dim in shape):
        yield model.finding("T005", where, f"{title}: a dim is -1 or at least 1, in reshape too")
    elif dims.count(-1) != shape.count(-1):
        yield model.finding("T006", where, wrong, "keep as many -1 as in dims")
    elif _runs(dims) != _runs(shape):
        yield model.finding("T006", where, wrong, "keep the number of elements")


def _runs(dims: Sequence[int]) -> list[int]:
    """Return the number of elements before, between and after dims of any size."""
    runs: list[int] = []
    current: list[int] = []
    for dim in dims:
        if dim == -1:
            runs.append(math.prod(current))
            current = []
        else:
            current.append(dim)
    return [*runs, math.prod(current)]


def _input_only(model: Model, path: FieldPath, title: str, tensor: Input) -> Iterator[Finding]:
    if tensor.format in ("FORMAT_NCHW", "FORMAT_NHWC") and tensor.dims and len(tensor.dims) != 3:
        yield model.finding(
            "T007",
            (*path, "format"),
            f"{title}: {tensor.format} is for three dims, got {shapes.text(tensor.dims)}",
        )
    if tensor.allow_ragged_batch and model.max_batch_size == 0:
        yield model.finding(
            "T008",
            (*path, "allow_ragged_batch"),
            f"{title}: allow_ragged_batch without batching",
            "set max_batch_size",
        )
