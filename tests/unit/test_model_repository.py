"""The model repository agrees with itself: configurations, ONNX files, models.toml and code."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from google.protobuf import text_format
from onnx import TensorProto
from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig

from cropseek.triton.client import MODEL
from cropseek.triton.manifest import load_manifest
from cropseek.types import MAX_DETECTIONS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REPOSITORY = Path(__file__).parents[2] / "model_repository"
NAMES = sorted(path.name for path in REPOSITORY.iterdir() if path.is_dir())
CONFIGS: dict[str, Any] = {
    name: text_format.Parse(
        (REPOSITORY / name / "configs" / "cpu.pbtxt").read_text(encoding="utf-8"), ModelConfig()
    )
    for name in NAMES
}
TABLES: dict[str, Any] = tomllib.loads((REPOSITORY / "models.toml").read_text(encoding="utf-8"))
ENSEMBLES = [name for name in NAMES if CONFIGS[name].platform == "ensemble"]
ONNX = [name for name in NAMES if CONFIGS[name].backend == "onnxruntime"]
PYTHON = [name for name in NAMES if CONFIGS[name].backend == "python"]
# All that compute: not an ensemble, nor the model that calls the others.
LEAVES = [name for name in NAMES if name not in (*ENSEMBLES, MODEL)]

Tensor = tuple[str, str, tuple[int, ...]]


def tensors(described: Any) -> list[Tensor]:
    """Name, type and dims (without the batch) of a configuration's inputs or outputs."""
    return [(t.name, DataType.Name(t.data_type), tuple(t.dims)) for t in described]


def inputs(name: str) -> dict[str, Tensor]:
    """A model's inputs by name."""
    return {tensor[0]: tensor for tensor in tensors(CONFIGS[name].input)}


def outputs(name: str) -> dict[str, Tensor]:
    """A model's outputs by name."""
    return {tensor[0]: tensor for tensor in tensors(CONFIGS[name].output)}


def parameter(name: str, key: str) -> int:
    """A whole number among a model's parameters."""
    return int(CONFIGS[name].parameters[key].string_value)


def test_the_models_are_there() -> None:
    """Those of DESIGN.md, section 1."""
    assert NAMES == [
        "detect",
        "detector",
        "embedder",
        "image_search",
        "preprocess",
        "vector_search",
    ]
    assert (ENSEMBLES, ONNX) == (["detect"], ["detector", "embedder"])
    assert LEAVES == ["detector", "embedder", "preprocess", "vector_search"]


# ---- each model ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_configuration_names_its_model(name: str) -> None:
    """Complete, since the server completes nothing; and with a batch dimension."""
    config = CONFIGS[name]
    assert config.name == name
    assert config.input
    assert config.output
    assert config.max_batch_size >= 1
    assert bool(config.backend) != bool(config.platform)
    assert len(inputs(name)) == len(config.input)
    assert len(outputs(name)) == len(config.output)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_has_its_file(name: str) -> None:
    """Where its backend looks for it; the ensemble has an empty folder."""
    version = REPOSITORY / name / "1"
    assert version.is_dir()
    if name in ONNX:
        assert (version / "model.onnx").is_file()
    if name in PYTHON:
        text = (version / "model.py").read_text(encoding="utf-8")
        assert "class TritonPythonModel" in text
        assert len(text.splitlines()) <= 100  # at most a screenful: the rest is in cropseek


@pytest.mark.parametrize("name", LEAVES)
def test_no_request_waits_for_ever(name: str) -> None:
    """A BLS call has no clock of its own; a caller may give it less time."""
    policy = CONFIGS[name].dynamic_batching.default_queue_policy
    assert policy.default_timeout_microseconds > 0
    assert policy.allow_timeout_override
    assert policy.timeout_action == policy.REJECT


@pytest.mark.parametrize("name", [name for name in NAMES if name not in LEAVES])
def test_only_leaves_are_warmed_up(name: str) -> None:
    """On an ensemble or on BLS a warm-up stops the server."""
    assert not CONFIGS[name].model_warmup


@pytest.mark.parametrize("name", LEAVES)
def test_a_warm_up_is_a_possible_request(name: str) -> None:
    """Every input, as declared; no more rows than a batch holds."""
    for sample in CONFIGS[name].model_warmup:
        assert 1 <= sample.batch_size <= CONFIGS[name].max_batch_size
        given = {
            key: (key, DataType.Name(value.data_type), tuple(value.dims))
            for key, value in sample.inputs.items()
        }
        assert given == inputs(name)


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_not_cached(name: str) -> None:
    """The cache's key knows neither parameters nor state."""
    assert not CONFIGS[name].response_cache.enable


# ---- between models -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ENSEMBLES)
def test_an_ensemble_maps_tensors_that_fit(name: str) -> None:
    """Each step gets all its inputs, of the type and dims it wants, from what was there before."""
    known = {tensor[0]: tensor[1:] for tensor in inputs(name).values()}
    for step in CONFIGS[name].ensemble_scheduling.step:
        assert step.model_name in NAMES
        assert step.model_version == -1
        wanted = inputs(step.model_name)
        assert set(step.input_map) == set(wanted)
        for key, value in step.input_map.items():
            assert known[value] == wanted[key][1:], f"{step.model_name}: {key}"
        made = outputs(step.model_name)
        for key, value in step.output_map.items():
            assert value not in known, f"{step.model_name}: {value} is made twice"
            known[value] = made[key][1:]
    assert {tensor[0]: known[tensor[0]] for tensor in outputs(name).values()} == {
        tensor[0]: tensor[1:] for tensor in outputs(name).values()
    }


def test_an_ensembles_batch_is_one_that_its_members_take() -> None:
    """One picture a request; pictures meet in the members' own batchers."""
    for name in ENSEMBLES:
        members = [step.model_name for step in CONFIGS[name].ensemble_scheduling.step]
        assert CONFIGS[name].max_batch_size == 1
        assert min(CONFIGS[member].max_batch_size for member in members) >= 1
    assert CONFIGS[MODEL].max_batch_size == 1
    assert inputs(MODEL) == inputs("detect") == inputs("preprocess")


def test_pictures_of_different_lengths_may_share_a_batch() -> None:
    """Else only equal ones would meet in the batcher."""
    (image,) = CONFIGS["preprocess"].input
    assert image.allow_ragged_batch


def test_image_search_knows_its_embedder() -> None:
    """The side of a crop, and how many one call holds."""
    ((_, kind, dims),) = inputs("embedder").values()
    side = parameter(MODEL, "crop_side")
    assert kind == "TYPE_UINT8"
    assert dims == (3, side, side)
    assert side == TABLES["embedder"]["input_size"]
    assert parameter(MODEL, "most_crops") == CONFIGS["embedder"].max_batch_size
    assert set(CONFIGS[MODEL].parameters) == {"bls_models", "crop_side", "most_crops"}


def test_a_search_takes_every_vector_of_a_picture_at_once() -> None:
    """300 objects and the whole picture."""
    assert CONFIGS["vector_search"].max_batch_size >= MAX_DETECTIONS + 1


def test_there_is_one_index() -> None:
    """Each instance is a process with a copy of it."""
    (group,) = CONFIGS["vector_search"].instance_group
    assert group.count == 1


# ---- models.toml --------------------------------------------------------------------------------


def test_the_detector_is_the_one_of_the_manifest() -> None:
    """Its square, its rows, and as many names as classes."""
    table = TABLES["detector"]
    side, most = table["input_size"], table["max_detections"]
    assert tensors(CONFIGS["detector"].input) == [("LETTERBOXED", "TYPE_UINT8", (3, side, side))]
    assert tensors(CONFIGS["detector"].output) == [("DETECTIONS", "TYPE_FP32", (most, 6))]
    assert most == MAX_DETECTIONS
    labels = (REPOSITORY / table["labels"]).read_text(encoding="utf-8")
    assert labels.endswith("\n")
    assert len(labels.splitlines()) == table["num_classes"]
    assert all(re.fullmatch(r"\S(.*\S)?", line) for line in labels.splitlines())


def test_preprocess_makes_what_the_detector_takes() -> None:
    """The side in its code is the manifest's."""
    text = (REPOSITORY / "preprocess" / "1" / "model.py").read_text(encoding="utf-8")
    assert f"letterbox(frame, {TABLES['detector']['input_size']})" in text


def test_the_embedder_is_the_one_of_the_manifest() -> None:
    """Its vector's length, which every collection stores."""
    dim = TABLES["embedder"]["dim"]
    assert tensors(CONFIGS["embedder"].output) == [("EMBEDDINGS", "TYPE_FP32", (dim,))]
    assert load_manifest(REPOSITORY).embedder.fingerprint.dim == dim


@pytest.mark.parametrize("role", ["detector", "embedder"])
def test_the_manifest_names_the_served_file(role: str) -> None:
    """Not another version's."""
    assert TABLES[role]["file"] == f"{role}/1/model.onnx"


# ---- the ONNX files -----------------------------------------------------------------------------

ELEMENTS = {TensorProto.UINT8: "TYPE_UINT8", TensorProto.FLOAT: "TYPE_FP32"}


def onnx_tensors(described: Any) -> list[Tensor]:
    """Name, type and dims (without the batch) of a graph's inputs or outputs; free dims are -1."""
    found = []
    for value in described:
        kind = value.type.tensor_type
        dims = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in kind.shape.dim]
        assert dims[0] == -1, f"{value.name}: the batch is fixed at {dims[0]}"
        found.append((value.name, ELEMENTS[kind.elem_type], tuple(dims[1:])))
    return found


@pytest.mark.parametrize("name", ONNX)
def test_an_onnx_file_is_what_its_configuration_says(name: str) -> None:
    """Names, types and dims, in both directions; any batch."""
    graph = onnx.load(REPOSITORY / name / "1" / "model.onnx").graph
    assert onnx_tensors(graph.input) == tensors(CONFIGS[name].input)
    assert onnx_tensors(graph.output) == tensors(CONFIGS[name].output)
