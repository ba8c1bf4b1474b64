"""What only runs inside Triton's Python stub: calling other models, and their errors.

Imports `triton_python_backend_utils`, which exists nowhere else.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import triton_python_backend_utils as pb_utils

from cropseek.errors import CropseekError, ModelFailed
from cropseek.triton.pipeline import Arrays
from cropseek.triton.wire import error_message, parse_error

_log = logging.getLogger(__name__)


def call_model(
    model: str, inputs: Arrays, outputs: Sequence[str], parameters: Mapping[str, bool]
) -> Arrays:
    """Run another model of this server and return the outputs asked for, as NumPy arrays.

    Raises the `CropseekError` that stands for the model's error code.
    """
    response = pb_utils.InferenceRequest(
        model_name=model,
        inputs=[pb_utils.Tensor(name, array) for name, array in inputs.items()],
        requested_output_names=list(outputs),
        parameters=dict(parameters),
    ).exec()
    if response.has_error():
        message = response.error().message()
        raise parse_error(message) or ModelFailed(f"{model}: {message}")
    return {name: pb_utils.get_output_tensor_by_name(response, name).as_numpy() for name in outputs}


def logged_fault(model: str) -> ModelFailed:
    """Log the exception that is being handled; return an error that says where to look for it."""
    number = uuid.uuid4().hex[:12]
    _log.exception("%s: error %s", model, number)
    return ModelFailed(f"{model}: error {number} in the log")


def failed(error: CropseekError) -> Any:
    """Return the response of a request that failed with a cropseek error."""
    invalid = error.code == "INVALID_ARGUMENT"
    code = pb_utils.TritonError.INVALID_ARG if invalid else pb_utils.TritonError.INTERNAL
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(error_message(error), code))
