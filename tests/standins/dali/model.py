"""Stands in for the `dali` backend: serialises the model's `dali.py` and runs it on the CPU.

As DALI does it answers only requests for all outputs, batches the samples of several requests, and
fails all of those requests if one picture cannot be read. Only the device is another.
"""

from __future__ import annotations

import json
from importlib.util import module_from_spec, spec_from_file_location
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from numpy.typing import NDArray
from nvidia.dali import Pipeline


class TritonPythonModel:
    """A DALI pipeline of one input, in Triton."""

    def initialize(self, args: dict[str, str]) -> None:
        """Serialise the pipeline and build it."""
        config = json.loads(args["model_config"])
        (self._input,) = (tensor["name"] for tensor in config["input"])
        self._outputs = [tensor["name"] for tensor in config["output"]]
        self._most = config["max_batch_size"]
        self._serialised = _serialised(Path(pb_utils.get_model_dir()) / "dali.py")
        self._reset()

    def execute(self, requests: list[Any]) -> list[Any]:
        """Run the samples of all requests as one batch."""
        for request in requests:
            wanted = request.requested_output_names()
            if set(wanted) != set(self._outputs):
                message = f"expected a request for {self._outputs}, got one for {wanted}"
                return [_failed(message)] * len(requests)
        samples = [list(_rows(request, self._input)) for request in requests]
        try:
            outputs = self._run(list(chain.from_iterable(samples)))
        except RuntimeError as error:
            self._reset()
            return [_failed(f"Runtime error: {error}")] * len(requests)
        return [
            pb_utils.InferenceResponse(
                [
                    pb_utils.Tensor(name, np.stack([next(rows) for _ in sent]))
                    for name, rows in outputs.items()
                ]
            )
            for sent in samples
        ]

    def _run(self, samples: list[NDArray[np.uint8]]) -> dict[str, Any]:
        """Return the rows of each output, in the order of the samples."""
        self._pipeline.feed_input(self._input, samples)
        outputs = zip(self._outputs, self._pipeline.run(), strict=True)
        return {name: map(np.array, rows) for name, rows in outputs}

    def _reset(self) -> None:
        """Build the pipeline, anew after an error, which leaves it unusable."""
        self._pipeline = Pipeline.deserialize(
            self._serialised,
            batch_size=self._most,
            num_threads=2,
            device_id=None,
            prefetch_queue_depth=1,
        )
        self._pipeline.build()


def _serialised(file: Path) -> bytes:
    spec = spec_from_file_location("autoserialize_mod", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    pipeline = module.preprocess(decoder="cpu", device_id=None)
    return bytes(pipeline.serialize())


def _rows(request: Any, name: str) -> NDArray[np.uint8]:
    rows: NDArray[np.uint8] = pb_utils.get_input_tensor_by_name(request, name).as_numpy()
    return rows


def _failed(message: str) -> Any:
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(message))
