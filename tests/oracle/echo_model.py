"""A Python model that answers zeros in the shape its configuration says."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        self._config = json.loads(args["model_config"])

    def execute(self, requests: list[Any]) -> list[Any]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        rows = request.inputs()[0].as_numpy().shape[0]
        outputs = [self._output(output, rows) for output in self._config["output"]]
        return pb_utils.InferenceResponse(outputs)

    def _output(self, output: dict[str, Any], rows: int) -> Any:
        shape = [1 if int(dim) == -1 else int(dim) for dim in output["dims"]]
        if len(shape) > 1 and output["dims"][0] in (-1, "-1"):
            shape[0] = rows
        if self._config["max_batch_size"] > 0:
            shape = [rows, *shape]
        dtype = pb_utils.triton_string_to_numpy(output["data_type"])
        return pb_utils.Tensor(output["name"], np.zeros(shape, dtype))
