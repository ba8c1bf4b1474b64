"""A stand-in for the module that Triton's Python stub brings, and a model loaded with it."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from numpy.typing import NDArray

REPOSITORY = Path(__file__).parents[2] / "model_repository"


@dataclass
class Tensor:
    name: str
    array: NDArray[Any]

    def as_numpy(self) -> NDArray[Any]:
        return self.array


@dataclass
class TritonError:
    message: str
    code: str
    INVALID_ARG = "INVALID_ARG"
    INTERNAL = "INTERNAL"


@dataclass
class InferenceResponse:
    output_tensors: list[Tensor] = field(default_factory=list)
    error: TritonError | None = None

    def __getitem__(self, name: str) -> NDArray[Any]:
        assert self.error is None, self.error
        return next(tensor.array for tensor in self.output_tensors if tensor.name == name)


class Request(dict[str, Tensor]):
    """Input tensors by name, and parameters."""

    def __init__(self, *tensors: Tensor, **parameters: Any) -> None:
        super().__init__({tensor.name: tensor for tensor in tensors})
        self._parameters = parameters

    def parameters(self) -> str:
        return json.dumps(self._parameters)


def load_model(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module of a packaged model, as its process would have it."""
    pb_utils: Any = ModuleType("triton_python_backend_utils")
    pb_utils.Tensor, pb_utils.TritonError = Tensor, TritonError
    pb_utils.InferenceResponse = InferenceResponse
    pb_utils.get_input_tensor_by_name = dict.__getitem__
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", pb_utils)
    monkeypatch.setitem(sys.modules, "cropseek.triton.bls", pb_utils)  # to be put back after
    del sys.modules["cropseek.triton.bls"]
    path = REPOSITORY / name / "1" / "model.py"
    spec = importlib.util.spec_from_file_location(f"{name}_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
