"""The model repository with models that compute nothing: what is left is the path between them."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from cropseek.settings import Settings
from cropseek.types import Float32Array

_OBJECTS = 6  # about as many as a photo has


def write_hollow_repository(target: Path) -> None:
    """Copy the packaged repository; its detector always finds the same six boxes."""
    shutil.copytree(Settings().model_repository, target)
    detections = np.zeros((300, 6), np.float32)
    for number in range(_OBJECTS):
        left = 90 + 70 * number
        detections[number] = left, 200, left + 110, 400, 0.9 - 0.1 * number, number
    vector = np.full(1280, 1280**-0.5, np.float32)
    _replace(target, "detector", _constant("LETTERBOXED", (3, 640, 640), "DETECTIONS", detections))
    _replace(target, "embedder", _constant("CROPS", (3, 224, 224), "EMBEDDINGS", vector))


def _constant(
    input_name: str, input_shape: tuple[int, ...], output_name: str, row: Float32Array
) -> onnx.ModelProto:
    """Return a model that answers each row of its input with the same one."""
    graph = helper.make_graph(
        [
            helper.make_node("Shape", [input_name], ["rows"], start=0, end=1),
            helper.make_node("Concat", ["rows", "row_shape"], ["shape"], axis=0),
            helper.make_node("Expand", ["row", "shape"], [output_name]),
        ],
        "hollow",
        [helper.make_tensor_value_info(input_name, TensorProto.UINT8, ["batch", *input_shape])],
        [helper.make_tensor_value_info(output_name, TensorProto.FLOAT, ["batch", *row.shape])],
        [
            numpy_helper.from_array(row, "row"),
            numpy_helper.from_array(np.array(row.shape, np.int64), "row_shape"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _replace(repository: Path, name: str, model: onnx.ModelProto) -> None:
    """Put a model in a model's place, and its checksum in the manifest."""
    path, manifest = repository / name / "1" / "model.onnx", repository / "models.toml"
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    onnx.save(model, path)
    after = hashlib.sha256(path.read_bytes()).hexdigest()
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(text.replace(before, after), encoding="utf-8")
