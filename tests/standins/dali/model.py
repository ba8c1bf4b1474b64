"""Stands in for the `dali` backend: serialises the model's `dali.py` and runs it on the CPU.

As DALI does it answers only requests for all outputs, batches the samples of several requests,
fails all of those requests if one picture cannot be read, and runs DALI's older executor.
"""

from __future__ import annotations

import json
import runpy
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from nvidia.dali import Pipeline

from cropseek.types import Uint8Array


class TritonPythonModel:
    """A DALI pipeline of one input, called `preprocess`, in Triton."""

    def initialize(self, args: dict[str, str]) -> None:
        """Serialise the pipeline and build it."""
        config = json.loads(args["model_config"])
        (self._input,) = (tensor["name"] for tensor in config["input"])
        self._outputs = [tensor["name"] for tensor in config["output"]]
        self._max_batch_size = config["max_batch_size"]
        self._num_threads = int(config["parameters"]["num_threads"]["string_value"])
        module = runpy.run_path(str(Path(pb_utils.get_model_dir()) / "dali.py"))
        made = module["preprocess"](decoding_device="cpu", device_id=None)
        self._serialised = made.serialize()
        self._reset()

    def execute(self, requests: list[Any]) -> list[Any]:
        """Run the samples of all requests as one batch."""
        for request in requests:
            wanted = request.requested_output_names()
            if set(wanted) != set(self._outputs):
                return _failed(requests, f"expected a request for {self._outputs}, got {wanted}")
        samples = [
            list(pb_utils.get_input_tensor_by_name(request, self._input).as_numpy())
            for request in requests
        ]
        try:
            outputs = self._run(list(chain.from_iterable(samples)))
        except Exception as error:  # whatever it is, the pipeline is of no use after it
            self._reset()
            return _failed(requests, f"Runtime error: {error}")
        return [
            pb_utils.InferenceResponse(
                [
                    pb_utils.Tensor(name, np.stack([next(rows) for _ in sent]))
                    for name, rows in outputs.items()
                ]
            )
            for sent in samples
        ]

    def _run(self, samples: list[Uint8Array]) -> dict[str, Any]:
        """Return the rows of each output, in the order of the samples."""
        outputs = self._pipeline.run(**{self._input: samples})
        return {
            name: map(np.array, rows) for name, rows in zip(self._outputs, outputs, strict=True)
        }

    def _reset(self) -> None:
        """Make the pipeline, anew after an error, which leaves it unusable."""
        self._pipeline = Pipeline.deserialize(
            self._serialised,
            batch_size=self._max_batch_size,
            num_threads=self._num_threads,
            device_id=None,
            prefetch_queue_depth=1,
            exec_pipelined=True,
            exec_async=True,
            exec_dynamic=False,
        )


def _failed(requests: list[Any], message: str) -> list[Any]:
    return [
        pb_utils.InferenceResponse(
            error=pb_utils.TritonError(message, pb_utils.TritonError.UNKNOWN)
        )
        for _ in requests
    ]
