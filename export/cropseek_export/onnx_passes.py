"""Small rewrites of ONNX graphs; none of them changes what a model computes in FP32."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

PRODUCER = "cropseek_export"
HALF_SUFFIX = "/fp16"


def sha256_hex(data: bytes) -> str:
    """SHA-256 of some bytes, in lower-case hex."""
    return hashlib.sha256(data).hexdigest()


def copy_model(model: ModelProto) -> ModelProto:
    """An independent copy."""
    copied = ModelProto()
    copied.CopyFrom(model)
    return copied


def opset_version(model: ModelProto) -> int:
    """The version of the standard operator set that a model uses.

    Raises ValueError when it names none.
    """
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    if not versions:
        raise ValueError("opset: expected a version of the standard operators, got none")
    return int(max(versions))


def serialise(model: ModelProto) -> bytes:
    """The model as the bytes of its file; equal models give equal bytes."""
    return bytes(model.SerializeToString(deterministic=True))


def fold_constants(model: ModelProto) -> ModelProto:
    """Replace every node that reads constants only by the constant it computes.

    Returns a new model. Meant for the shape arithmetic that a tracing exporter leaves behind.
    """
    model = copy_model(model)
    graph = model.graph
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    remaining: list[NodeProto] = []
    for node in graph.node:
        inputs = [name for name in node.input if name]
        if not all(name in known for name in inputs):
            remaining.append(node)
            continue
        values = ReferenceEvaluator(node).run(None, {name: known[name] for name in inputs})
        for name, value in zip(node.output, values, strict=True):
            known[name] = np.asarray(value)
            graph.initializer.append(numpy_helper.from_array(known[name], name))
    del graph.node[:]
    graph.node.extend(remaining)
    return model


def absorb_padding(model: ModelProto) -> ModelProto:
    """Move constant zero Pad nodes into the `pads` of the Conv that follows.

    Returns a new model. ONNX convolutions pad each side differently; PyTorch's do not, so "same"
    padding with stride 2 arrives here as a Pad node, a copy of the whole tensor.
    """
    model = copy_model(model)
    graph = model.graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    convs = {node.input[0]: node for node in graph.node if node.op_type == "Conv"}
    removed: list[NodeProto] = []
    for pad in graph.node:
        conv = convs.get(pad.output[0])
        if pad.op_type != "Pad" or conv is None:
            continue
        spatial = _spatial_zero_padding(pad, constants)
        if spatial is None:
            continue
        _add_pads(conv, spatial)
        conv.input[0] = pad.input[0]
        removed.append(pad)
    for pad in removed:
        graph.node.remove(pad)
    return model


def weights_to_fp16(model: ModelProto, min_elements: int = 1024) -> ModelProto:
    """Store large FP32 weights as FP16 with a Cast back to FP32 in front of their readers.

    model: FP32 weights as initializers. It is not changed.
    min_elements: smaller tensors (biases, constants) stay FP32; they weigh nothing.
    Returns a new model that computes in FP32.
    Raises ValueError when a weight does not fit FP16 (|w| > 65504).
    """
    model = copy_model(model)
    graph = model.graph
    casts: list[NodeProto] = []
    for tensor in graph.initializer:
        weights = numpy_helper.to_array(tensor)
        if weights.dtype != np.float32 or weights.size < min_elements:
            continue
        name = tensor.name
        if np.abs(weights).max() > np.finfo(np.float16).max:
            raise ValueError(f"weight '{name}': expected |w| <= 65504, got {np.abs(weights).max()}")
        half = numpy_helper.from_array(weights.astype(np.float16), name + HALF_SUFFIX)
        tensor.CopyFrom(half)
        casts.append(
            helper.make_node("Cast", [half.name], [name], name=name + "/cast", to=TensorProto.FLOAT)
        )
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    onnx.checker.check_model(model)
    return model


def tidy(model: ModelProto) -> ModelProto:
    """Drop what does not compute: unused constants, inferred shapes, notes, names of tools.

    Returns a new model, so that the bytes depend on the weights and the graph only. Constants are
    called after the node that reads them first, because exporters number them.
    """
    model = copy_model(model)
    graph = model.graph
    _drop_unused(model)
    _name_constants_after_readers(model)
    del graph.value_info[:]
    graph.name = "main"
    graph.doc_string = ""
    for node in graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
    model.producer_name, model.producer_version = PRODUCER, ""
    onnx.checker.check_model(model)
    return model


def _drop_unused(model: ModelProto) -> None:
    """Remove nodes and initializers that nothing reads."""
    graph = model.graph
    outputs = {value.name for value in graph.output}
    while True:
        read = {name for node in graph.node for name in node.input} | outputs
        dead = [node for node in graph.node if not read.intersection(node.output)]
        if not dead:
            break
        for node in dead:
            graph.node.remove(node)
    kept = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)


def _name_constants_after_readers(model: ModelProto) -> None:
    """Rename each initializer to `<name of its first reader>/<position of that input>`."""
    names: dict[str, str] = {}
    constants = {tensor.name for tensor in model.graph.initializer}
    for node in model.graph.node:
        for position, name in enumerate(node.input):
            if name in constants:
                names.setdefault(name, f"{node.name}/{position}")
                node.input[position] = names[name]
    for tensor in model.graph.initializer:
        tensor.name = names[tensor.name]


def _spatial_zero_padding(
    pad: NodeProto, constants: dict[str, npt.NDArray[Any]]
) -> list[int] | None:
    """[top, left, bottom, right] of a zero Pad of NCHW that touches only H and W, else None."""
    mode = next((entry.s for entry in pad.attribute if entry.name == "mode"), b"constant")
    pads = constants.get(pad.input[1])
    value = constants.get(pad.input[2]) if len(pad.input) > 2 and pad.input[2] else np.zeros(1)
    if mode != b"constant" or pads is None or value is None or np.any(value):
        return None
    if len(pads) != 8 or np.any(pads[[0, 1, 4, 5]]) or np.any(pads < 0):
        return None
    return [int(pads[index]) for index in (2, 3, 6, 7)]


def _add_pads(conv: NodeProto, spatial: list[int]) -> None:
    """Add [top, left, bottom, right] to a convolution's own padding."""
    for entry in conv.attribute:
        if entry.name == "pads":
            total = [own + extra for own, extra in zip(entry.ints, spatial, strict=True)]
            entry.CopyFrom(helper.make_attribute("pads", total))
            return
    conv.attribute.append(helper.make_attribute("pads", spatial))
