"""Stands in for the `dali` backend: decodes with cropseek.vision, and runs no DALI pipeline.

It keeps what DALI asks of its callers: a request must want every output. Unlike DALI it fails a
damaged picture alone, not the batch that it came in. Like DALI it knows no error codes of ours.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from numpy.typing import NDArray

from cropseek.errors import CropseekError
from cropseek.types import Uint8Array
from cropseek.vision.decode import decode_image
from cropseek.vision.geometry import letterbox


class TritonPythonModel:
    """What `preprocess` is in a GPU profile: encoded bytes to the detector's square."""

    def initialize(self, args: dict[str, str]) -> None:
        """Read the names of the outputs."""
        config = json.loads(args["model_config"])
        self._outputs = [output["name"] for output in config["output"]]

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer each request of a batch."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        wanted = request.requested_output_names()
        if set(wanted) != set(self._outputs):
            return _failed(f"expected a request for {self._outputs}, got one for {wanted}")
        try:
            rows = [
                _decoded(row)
                for row in pb_utils.get_input_tensor_by_name(request, "IMAGE").as_numpy()
            ]
        except CropseekError as error:
            return _failed(f"Failed to decode sample: {error}")
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor(name, np.stack([row[name] for row in rows])) for name in self._outputs]
        )


def _decoded(encoded: Uint8Array) -> dict[str, NDArray[Any]]:
    frame = decode_image(encoded)
    square, fitted = letterbox(frame, 640)
    return {"LETTERBOXED": square, "FITTED": fitted.to_array(), "FRAME": frame}


def _failed(message: str) -> Any:
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(message))
