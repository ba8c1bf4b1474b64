"""Stands in for the `tensorrt` backend: runs the ONNX file that the plan would be built from."""

from __future__ import annotations

import json

from cropseek.triton.backends.onnxruntime.model import TritonPythonModel as OnnxModel


class TritonPythonModel(OnnxModel):
    """`1/model.onnx` on the CPU, where TensorRT would run `1/model.plan`, which Triton names."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the graph."""
        config = json.loads(args["model_config"]) | {"default_model_filename": "model.onnx"}
        super().initialize(args | {"model_config": json.dumps(config)})
