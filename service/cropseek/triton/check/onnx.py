"""Rules that hold a configuration to the ONNX file beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from cropseek.triton.check import shapes
from cropseek.triton.check.findings import Finding
from cropseek.triton.check.model import Model
from cropseek.triton.check.onnx_file import GraphTensor, NotOnnx, read_graph
from cropseek.triton.codec import FieldPath
from cropseek.triton.config import Input, Output


def onnx_findings(model: Model) -> Iterator[Finding]:
    """Yield where a configuration and its ONNX graph differ."""
    if model.backend != "onnxruntime":
        return
    name = model.config.default_model_filename or "model.onnx"
    for version in model.served_versions:
        file = model.folder / str(version) / name
        if file.is_file():
            yield from _file(model, file)


def _file(model: Model, file: Path) -> Iterator[Finding]:
    try:
        graph = read_graph(file)
    except NotOnnx as error:
        yield model.finding("O001", ("backend",), f"{file.parent.name}/{file.name}: {error}")
        return
    if graph is None:
        return
    inputs, outputs = graph
    yield from _side(model, "input", model.config.input, inputs)
    yield from _side(model, "output", model.config.output, outputs)


def _side(
    model: Model,
    kind: str,
    written: Sequence[Input | Output],
    graph: Sequence[GraphTensor],
) -> Iterator[Finding]:
    if not written:
        return  # the server completes them from the file
    there = {tensor.name: tensor for tensor in graph}
    for number, tensor in enumerate(written):
        at = (kind, number)
        if not tensor.name:
            continue
        if tensor.name not in there:
            yield model.finding(
                "O002",
                (*at, "name"),
                f"the graph has no {kind} {tensor.name!r}",
                f"it has: {', '.join(there)}",
            )
            continue
        yield from _tensor(model, at, tensor, there[tensor.name])
    if kind == "input":
        names = {tensor.name for tensor in written}
        for missing in (t.name for t in graph if t.name not in names and not t.is_optional):
            yield model.finding(
                "O002", (kind,), f"the graph needs the input {missing!r}, which is not listed"
            )


def _tensor(
    model: Model, at: FieldPath, tensor: Input | Output, graph: GraphTensor
) -> Iterator[Finding]:
    if tensor.data_type and graph.data_type and tensor.data_type != graph.data_type:
        yield model.finding(
            "O003",
            (*at, "data_type"),
            f"{tensor.name}: the graph has {graph.data_type}, the configuration {tensor.data_type}",
        )
    dims = tensor.reshape.shape if tensor.reshape is not None else tensor.dims
    if graph.dims is None or model.max_batch_size is None or not tensor.dims:
        return
    expected = shapes.full(dims, model.max_batch_size)
    if shapes.fit(expected, graph.dims) and not _fixed_batch(model, graph):
        return
    remedy = ""
    if model.max_batch_size > 0 and shapes.fit(dims, graph.dims):
        remedy = "leave the batch dimension out of dims, since max_batch_size adds it"
    elif model.max_batch_size > 0 and _fixed_batch(model, graph):
        remedy = f"the graph takes batches of {graph.dims[0]} only: max_batch_size: 0, full dims"
    yield model.finding(
        "O004",
        (*at, "dims"),
        f"{tensor.name}: the graph has {shapes.text(graph.dims)}, "
        f"the configuration {shapes.text(expected)}"
        + (" with the batch dimension" if model.max_batch_size > 0 else ""),
        remedy,
    )


def _fixed_batch(model: Model, graph: GraphTensor) -> bool:
    """Return whether a graph that should take any batch takes one size only."""
    assert graph.dims is not None
    return bool(model.max_batch_size) and bool(graph.dims) and graph.dims[0] != -1
