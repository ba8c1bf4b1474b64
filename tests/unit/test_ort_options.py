"""How the CPU's `onnxruntime` backend reads a model's configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnxruntime as ort
import pytest
from google.protobuf import json_format, text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from cropseek.triton.backends.onnxruntime.options import session_settings
from cropseek.triton.backends.onnxruntime.sessions import SessionSettings

REPOSITORY = Path(__file__).parents[2] / "model_repository"
LEVEL = ort.GraphOptimizationLevel


def parameters(**values: str) -> dict[str, Any]:
    """A configuration with these parameters, in the form Triton hands over."""
    return {"parameters": {name: {"string_value": text} for name, text in values.items()}}


def graph(level: int) -> dict[str, Any]:
    """A configuration with a graph level."""
    return {"optimization": {"graph": {"level": level}}}


def cpu_accelerator(*names: str) -> dict[str, Any]:
    """A configuration with execution accelerators."""
    accelerators = [{"name": name, "parameters": {}} for name in names]
    return {
        "optimization": {
            "execution_accelerators": {
                "gpu_execution_accelerator": [],
                "cpu_execution_accelerator": accelerators,
            }
        }
    }


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param({}, SessionSettings(threads=6), id="nothing set"),
        pytest.param(parameters(), SessionSettings(threads=6), id="no parameters"),
        pytest.param({"optimization": {}}, SessionSettings(threads=6), id="no optimization"),
        pytest.param(
            parameters(intra_op_thread_count="0"), SessionSettings(threads=6), id="0: all cores"
        ),
        pytest.param(
            parameters(intra_op_thread_count="2"), SessionSettings(threads=2), id="two threads"
        ),
        pytest.param(
            parameters(rows_per_run="4"), SessionSettings(threads=6, rows_per_run=4), id="4 rows"
        ),
        pytest.param(parameters(rows_per_run="0"), SessionSettings(threads=6), id="0 rows: one"),
        pytest.param(
            parameters(inter_op_thread_count="3", execution_mode="1"),
            SessionSettings(threads=6, inter_op_threads=3, parallel=True),
            id="parallel",
        ),
        pytest.param(
            parameters(execution_mode="0"), SessionSettings(threads=6), id="sequential"
        ),
        pytest.param(
            parameters(enable_mem_arena="0", enable_mem_pattern="0"),
            SessionSettings(threads=6, memory_arena=False, memory_pattern=False),
            id="no arena, no pattern",
        ),
        pytest.param(
            graph(-1), SessionSettings(threads=6, graph_level=LEVEL.ORT_ENABLE_BASIC), id="basic"
        ),
        pytest.param(
            graph(0), SessionSettings(threads=6, graph_level=LEVEL.ORT_ENABLE_ALL), id="level 0"
        ),
        pytest.param(
            graph(1),
            SessionSettings(threads=6, graph_level=LEVEL.ORT_ENABLE_EXTENDED),
            id="extended",
        ),
        pytest.param(
            graph(2), SessionSettings(threads=6, graph_level=LEVEL.ORT_DISABLE_ALL), id="disabled"
        ),
        pytest.param(cpu_accelerator(), SessionSettings(threads=6), id="no accelerator"),
    ],
)  # fmt: skip
def test_a_configuration_becomes_settings(
    config: dict[str, Any], expected: SessionSettings
) -> None:
    """The native backend's names and meanings; six cores."""
    assert session_settings(config, 6) == expected


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (parameters(intra_op_threads="2"), r"parameter 'intra_op_threads': expected one of intra"),
        (parameters(intra_op_thread_count="-1"), "'intra_op_thread_count': .* got '-1'"),
        (parameters(intra_op_thread_count="two"), "expected a whole number, got 'two'"),
        (parameters(rows_per_run=""), "'rows_per_run': expected a whole number, got ''"),
        (parameters(rows_per_run="1.5"), "expected a whole number, got '1.5'"),
        (parameters(execution_mode="2"), "'execution_mode': expected 0 or 1, got 2"),
        (parameters(enable_mem_arena="true"), "'enable_mem_arena': expected a whole number"),
        (graph(3), r"optimization.graph.level: expected -1, 1 or 2, got 3"),
        (cpu_accelerator("tensorrt"), "cpu_execution_accelerator 'tensorrt': expected openvino"),
        (
            {
                "optimization": {
                    "execution_accelerators": {"gpu_execution_accelerator": [{"name": "tensorrt"}]}
                }
            },
            "gpu_execution_accelerator: this backend runs on the CPU only",
        ),
    ],
    ids=lambda value: json.dumps(value)[-40:] if isinstance(value, dict) else "",
)
def test_what_it_does_not_know_stops_the_load(config: dict[str, Any], message: str) -> None:
    """A misspelt parameter would else be ignored without a word."""
    with pytest.raises(ValueError, match=message):
        session_settings(config, 6)


def test_openvino_is_used_or_its_absence_told() -> None:
    """Whichever this onnxruntime is."""
    if "OpenVINOExecutionProvider" in ort.get_available_providers():
        providers = session_settings(cpu_accelerator("openvino"), 6).providers
        assert providers == ("OpenVINOExecutionProvider", "CPUExecutionProvider")
    else:
        with pytest.raises(ValueError, match="install onnxruntime-openvino in its place"):
            session_settings(cpu_accelerator("openvino"), 6)


@pytest.mark.parametrize(("model", "rows"), [("detector", 1), ("embedder", 2)])
def test_the_served_models_are_understood(model: str, rows: int) -> None:
    """As Triton hands them over: its JSON form of the configuration."""
    text = (REPOSITORY / model / "configs" / "cpu.pbtxt").read_text(encoding="utf-8")
    config = json_format.MessageToDict(
        text_format.Parse(text, ModelConfig()), preserving_proto_field_name=True
    )
    assert session_settings(config, 6) == SessionSettings(threads=6, rows_per_run=rows)
