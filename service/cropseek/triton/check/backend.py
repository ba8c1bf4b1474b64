"""Rules about what runs a model: name, backend, platform, and what makes an ensemble."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from cropseek.triton.check.findings import Finding
from cropseek.triton.check.model import Model
from cropseek.triton.config import PLATFORM_BACKENDS

_BACKENDS = (
    "dali",
    "ensemble",
    "fil",
    "onnxruntime",
    "openvino",
    "python",
    "pytorch",
    "tensorflow",
    "tensorrt",
    "tensorrtllm",
    "vllm",
)


def backend_findings(model: Model) -> Iterator[Finding]:
    """Yield what is wrong with the name, the backend and the platform."""
    config = model.config
    if config.name and config.name != model.name:
        yield model.finding(
            "R004",
            ("name",),
            f"the folder is {model.name!r}, the name {config.name!r}",
            f'name: "{model.name}", or leave it out',
        )
    if config.backend == "ensemble":
        yield model.finding(
            "M002", ("backend",), 'there is no backend "ensemble"', 'platform: "ensemble"'
        )
    elif config.platform == "ensemble" and config.backend:
        yield model.finding(
            "M002", ("backend",), f"an ensemble with the backend {config.backend!r}", "remove it"
        )
    elif config.platform and config.platform not in PLATFORM_BACKENDS and not config.backend:
        yield model.finding(
            "M002",
            ("platform",),
            f"there is no platform {config.platform!r}",
            _platform_remedy(config.platform),
        )
    elif config.platform and config.backend and config.platform in PLATFORM_BACKENDS:
        belongs = PLATFORM_BACKENDS[config.platform]
        if belongs != config.backend:
            yield model.finding(
                "M006",
                ("platform",),
                f"platform {config.platform!r} is of the backend {belongs!r}, "
                f"the configuration says {config.backend!r}",
                "keep `backend` and leave `platform` out",
            )
    near = get_close_matches(config.backend or "", _BACKENDS, 1, 0.7)
    if near and config.backend not in _BACKENDS:
        yield model.finding(
            "M007",
            ("backend",),
            f"{config.backend!r} is no backend of Triton's own",
            f"did you mean {near[0]!r}?",
        )
    if config.max_batch_size is not None and config.max_batch_size < 0:
        yield model.finding(
            "M005",
            ("max_batch_size",),
            f"max_batch_size: expected 0 or more, got {config.max_batch_size}",
        )


def _platform_remedy(platform: str) -> str:
    known = ", ".join(PLATFORM_BACKENDS)
    likely = {"onnx": "onnxruntime", "onnxruntime": "onnxruntime", "python": "python"}
    likely |= {"tensorrt": "tensorrt", "dali": "dali", "pytorch": "pytorch", "torch": "pytorch"}
    if platform in likely:
        return f'backend: "{likely[platform]}"'
    return f"platforms: {known}; for others set `backend`"


def ensemble_findings(model: Model) -> Iterator[Finding]:
    """Yield what an ensemble lacks or has too much."""
    config = model.config
    if model.backend != "ensemble":
        if config.ensemble_scheduling is not None:
            yield model.finding(
                "M003",
                ("ensemble_scheduling",),
                "ensemble_scheduling in a model that is no ensemble",
                'platform: "ensemble", without `backend`',
            )
        return
    if config.ensemble_scheduling is None or not config.ensemble_scheduling.step:
        yield model.finding("M003", ("ensemble_scheduling",), "an ensemble without a step")
    for kind, tensors in (("input", config.input), ("output", config.output)):
        if not tensors:
            yield model.finding("M004", (kind,), f"an ensemble without {kind}s")
    for name in ("dynamic_batching", "sequence_batching", "instance_group", "optimization"):
        if getattr(config, name) not in (None, ()):
            yield model.finding(
                "D002", (name,), f"{name} on an ensemble", f"put {name} on its members"
            )
