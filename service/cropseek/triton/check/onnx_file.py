"""The inputs and outputs of an ONNX file, read by ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """An input or output of a graph; `dims` with the batch dimension, None if not known.

    A graph may leave an input out that it has a value for: then it `is_optional`.
    """

    name: str
    data_type: str
    dims: Dims | None
    is_optional: bool = False


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
    inputs = [_tensor(t) for t in session.get_inputs()]
    inputs += [_tensor(t, is_optional=True) for t in session.get_overridable_initializers()]
    return inputs, [_tensor(t) for t in session.get_outputs()]


def _tensor(argument: Any, *, is_optional: bool = False) -> GraphTensor:
    # ONNX Runtime says [] of a scalar and of a tensor without a shape.
    dims = tuple(dim if isinstance(dim, int) else -1 for dim in argument.shape) or None
    return GraphTensor(argument.name, _TYPES.get(argument.type, ""), dims, is_optional)
