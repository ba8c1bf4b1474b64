"""The inputs and outputs of an ONNX file, read by ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cropseek.triton.check.shapes import Dims

_TYPES = {
    "tensor(bool)": "TYPE_BOOL",
    "tensor(uint8)": "TYPE_UINT8",
    "tensor(uint16)": "TYPE_UINT16",
    "tensor(uint32)": "TYPE_UINT32",
    "tensor(uint64)": "TYPE_UINT64",
    "tensor(int8)": "TYPE_INT8",
    "tensor(int16)": "TYPE_INT16",
    "tensor(int32)": "TYPE_INT32",
    "tensor(int64)": "TYPE_INT64",
    "tensor(float16)": "TYPE_FP16",
    "tensor(float)": "TYPE_FP32",
    "tensor(double)": "TYPE_FP64",
    "tensor(string)": "TYPE_STRING",
    "tensor(bfloat16)": "TYPE_BF16",
}


class NotOnnx(ValueError):
    """A file that is no ONNX model."""


@dataclass(frozen=True)
class GraphTensor:
    """An input or output of a graph; `dims` with the batch dimension, None if it has no shape."""

    name: str
    data_type: str
    dims: Dims | None


def read_graph(file: Path) -> tuple[list[GraphTensor], list[GraphTensor]] | None:
    """Return the inputs and outputs of an ONNX file; raises `NotOnnx` if it is none.

    None if it is one that this ONNX Runtime cannot load: the server's may be newer, or have the
    operators that are missing here.
    """
    import onnxruntime as ort  # takes a third of a second, and most repositories need none of it
    from onnxruntime.capi import onnxruntime_pybind11_state as errors

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    try:
        session = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    except (errors.InvalidProtobuf, errors.InvalidArgument):
        raise NotOnnx("it is no ONNX model, or a damaged one") from None
    except Exception:  # ONNX Runtime's own errors share no base class
        return None
    return [_tensor(t) for t in session.get_inputs()], [_tensor(t) for t in session.get_outputs()]


def _tensor(argument: object) -> GraphTensor:
    shape = getattr(argument, "shape", None)
    dims = None if shape is None else tuple(d if isinstance(d, int) else -1 for d in shape)
    name, kind = getattr(argument, "name"), getattr(argument, "type")  # noqa: B009
    return GraphTensor(name, _TYPES.get(kind, ""), dims)
