"""A Python model that calls the models of its parameter `bls_models`, one after another."""

from __future__ import annotations

import json
from typing import Any

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        parameters = json.loads(args["model_config"])["parameters"]
        self._models = parameters["bls_models"]["string_value"].split(", ")

    def execute(self, requests: list[Any]) -> list[Any]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        tensors = request.inputs()
        for model in self._models:
            response = pb_utils.InferenceRequest(
                model_name=model, inputs=tensors, requested_output_names=["Y"]
            ).exec()
            if response.has_error():
                return pb_utils.InferenceResponse(error=response.error())
            answer = pb_utils.get_output_tensor_by_name(response, "Y").as_numpy()
            tensors = [pb_utils.Tensor("X", answer)]
        return pb_utils.InferenceResponse([pb_utils.Tensor("Y", answer)])
