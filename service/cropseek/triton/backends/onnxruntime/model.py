"""The `onnxruntime` backend where the native one is missing: `1/model.onnx` on the CPU."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import triton_python_backend_utils as pb_utils

from cropseek.triton.backends.onnxruntime.options import session_settings
from cropseek.triton.backends.onnxruntime.sessions import ElasticSession, Tensors
from cropseek.triton.cores import usable_cores


class TritonPythonModel:
    """One model instance; Triton gives it one batch of requests after another."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the model; what is wrong with its configuration stops the load with a reason."""
        config = json.loads(args["model_config"])
        path = Path(pb_utils.get_model_dir()) / (config["default_model_filename"] or "model.onnx")
        self._inputs = [tensor["name"] for tensor in config["input"]]
        self._session = ElasticSession(path, session_settings(config, usable_cores()))

    def execute(self, requests: list[Any]) -> list[Any]:
        """Run all requests of a batch together, or one by one if that fails: the others go on."""
        batches = [
            {
                name: pb_utils.get_input_tensor_by_name(request, name).as_numpy()
                for name in self._inputs
            }
            for request in requests
        ]
        try:
            outcomes: Sequence[Tensors | Exception] = self._session.run(
                batches, all_cores=_alone(requests)
            )
        except Exception:  # ONNX Runtime's own errors share no base class
            outcomes = [self._run_one(batch) for batch in batches]
        return [_response(outcome) for outcome in outcomes]

    def _run_one(self, batch: Tensors) -> Tensors | Exception:
        try:
            return self._session.run([batch])[0]
        except Exception as error:  # whatever it is, it is this request's answer
            return error


def _response(outcome: Tensors | Exception) -> Any:
    if isinstance(outcome, Exception):
        # One of its own for each request: Triton 2.51 dies of an error that two responses share.
        return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(outcome)))
    return pb_utils.InferenceResponse(
        [pb_utils.Tensor(name, array) for name, array in outcome.items()]
    )


def _alone(requests: list[Any]) -> bool:
    """Return whether the only request says that nothing else is in work."""
    return len(requests) == 1 and bool(json.loads(requests[0].parameters()).get("all_cores"))
