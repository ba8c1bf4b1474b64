"""Reads an `onnxruntime` model's configuration: the native backend's names, no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnxruntime as ort

from cropseek.triton.backends.onnxruntime.sessions import SessionSettings

# The native backend's meaning of `optimization { graph { level } }`; without one, all of it.
_GRAPH_LEVELS = {
    -1: ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    0: ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
    1: ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    2: ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
}
_ACCELERATORS = {"openvino": "OpenVINOExecutionProvider"}
_PARAMETERS = (
    "intra_op_thread_count",
    "inter_op_thread_count",
    "execution_mode",
    "enable_mem_arena",
    "enable_mem_pattern",
    "rows_per_run",
)


def session_settings(config: Mapping[str, Any], cores: int) -> SessionSettings:
    """Return the session settings of a model configuration (Triton's JSON form).

    `intra_op_thread_count` 0 or absent is all `cores`. `rows_per_run` is ours: how many rows one
    run on one thread takes. Raises `ValueError` for a parameter, graph level or accelerator that
    this backend does not know.
    """
    values = {name: entry["string_value"] for name, entry in config.get("parameters", {}).items()}
    for name in values:
        if name not in _PARAMETERS:
            raise ValueError(f"parameter {name!r}: expected one of {', '.join(_PARAMETERS)}")
    optimization = config.get("optimization", {})
    level = int(optimization.get("graph", {}).get("level", 0))
    if level not in _GRAPH_LEVELS:
        raise ValueError(f"optimization.graph.level: expected -1, 1 or 2, got {level}")
    return SessionSettings(
        threads=_whole(values, "intra_op_thread_count", 0) or cores,
        rows_per_run=max(1, _whole(values, "rows_per_run", 1)),
        graph_level=_GRAPH_LEVELS[level],
        inter_op_threads=_whole(values, "inter_op_thread_count", 1),
        parallel=_flag(values, "execution_mode", False),
        memory_arena=_flag(values, "enable_mem_arena", True),
        memory_pattern=_flag(values, "enable_mem_pattern", True),
        providers=_providers(optimization.get("execution_accelerators", {})),
    )


def _whole(values: Mapping[str, str], name: str, default: int) -> int:
    text = values.get(name, str(default))
    if not text.isdecimal():
        raise ValueError(f"parameter {name!r}: expected a whole number, got {text!r}")
    return int(text)


def _flag(values: Mapping[str, str], name: str, default: bool) -> bool:
    number = _whole(values, name, int(default))
    if number > 1:
        raise ValueError(f"parameter {name!r}: expected 0 or 1, got {number}")
    return bool(number)


def _providers(accelerators: Mapping[str, Sequence[Mapping[str, Any]]]) -> tuple[str, ...]:
    if accelerators.get("gpu_execution_accelerator"):
        raise ValueError("gpu_execution_accelerator: this backend runs on the CPU only")
    providers = []
    for accelerator in accelerators.get("cpu_execution_accelerator", ()):
        name = accelerator["name"]
        if name not in _ACCELERATORS:
            raise ValueError(
                f"cpu_execution_accelerator {name!r}: expected {', '.join(_ACCELERATORS)}"
            )
        provider = _ACCELERATORS[name]
        if provider not in ort.get_available_providers():
            raise ValueError(
                f"cpu_execution_accelerator {name!r}: this onnxruntime has no {provider}; "
                "install onnxruntime-openvino in its place"
            )
        providers.append(provider)
    return (*providers, "CPUExecutionProvider")
