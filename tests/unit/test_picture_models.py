"""The Triton models of a picture's path, where something breaks that nobody foresaw."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from cropseek.types import PictureOptions
from tests.unit.fake_server import picture
from tests.unit.fake_stub import Request, Tensor, load_model


def broken(*_: Any) -> Any:
    raise ZeroDivisionError("a secret")


@pytest.mark.parametrize("name", ["preprocess", "image_search"])
def test_a_fault_is_an_id_in_the_log(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not a traceback in the answer; the log has it."""
    module = load_model(name, monkeypatch)
    model = module.TritonPythonModel()
    if name == "preprocess":
        monkeypatch.setattr(module, "letterbox", broken)
        model.initialize({})
    else:
        monkeypatch.setattr(module.Pipeline, "run", broken)
        values = {"crop_side": {"string_value": "224"}, "most_crops": {"string_value": "8"}}
        model.initialize({"model_config": json.dumps({"parameters": values})})
    image = Tensor("IMAGE", np.frombuffer(picture(), np.uint8)[None])
    (answer,) = model.execute([Request(image, options=PictureOptions().to_json())])
    assert answer.error is not None
    found = answer.error.message.removeprefix(f"INTERNAL: {name}: error ")
    number = found.removesuffix(" in the log")
    assert len(number) == 12
    assert number in caplog.text
    assert "ZeroDivisionError: a secret" in caplog.text
