"""Rules about one model's configuration, without its neighbours: backend, tensors, scheduling."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from cropseek.triton.check import shapes
from cropseek.triton.check.findings import Finding
from cropseek.triton.check.repository import PLATFORM_BACKENDS, Model
from cropseek.triton.codec import FieldPath
from cropseek.triton.config import Input, InstanceGroup, Output, QueuePolicy


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


def tensor_findings(model: Model) -> Iterator[Finding]:
    """Yield what is wrong with the inputs and outputs."""
    config = model.config
    sides: list[tuple[str, Sequence[Input | Output]]] = [
        ("input", config.input),
        ("output", config.output),
    ]
    for kind, tensors in sides:
        seen: dict[str, int] = {}
        for number, tensor in enumerate(tensors):
            path = (kind, number)
            yield from _one_tensor(model, path, tensor)
            if tensor.name and tensor.name in seen:
                yield model.finding(
                    "T002",
                    (*path, "name"),
                    f"{kind} {tensor.name!r} stands twice, first as number {seen[tensor.name] + 1}",
                    "remove or rename one",
                )
            elif tensor.name:
                seen[tensor.name] = number


def _one_tensor(model: Model, path: FieldPath, tensor: Input | Output) -> Iterator[Finding]:
    kind, number = str(path[0]), int(path[1])
    title = f"{kind} {tensor.name!r}" if tensor.name else f"{kind} number {number + 1}"
    if not tensor.name:
        yield model.finding("T001", path, f"{title} has no name", 'name: "…"')
    written = tensor.data_type is not None or (*path, "data_type") in model.read.places
    if not (written or model.is_completed) or tensor.data_type == "TYPE_INVALID":
        yield model.finding("T003", (*path, "data_type"), f"{title} has no data_type")
    if not tensor.dims and not model.is_completed:
        yield model.finding("T004", (*path, "dims"), f"{title} has no dims")
    for dim in tensor.dims:
        if dim == 0 or dim < -1:
            yield model.finding(
                "T005", (*path, "dims"), f"{title}: a dim is -1 or at least 1, got {dim}"
            )
            break
    else:
        yield from _reshape(model, path, title, tensor)
    if isinstance(tensor, Input):
        yield from _input_only(model, path, title, tensor)


def _reshape(
    model: Model, path: FieldPath, title: str, tensor: Input | Output
) -> Iterator[Finding]:
    if tensor.reshape is None or not tensor.dims:
        return
    dims, shape = tensor.dims, tensor.reshape.shape
    where = (*path, "reshape")
    wrong = f"{title}: dims {shapes.text(dims)} cannot become {shapes.text(shape)}"
    if not shape and model.max_batch_size == 0:
        yield model.finding("T006", where, f"{title}: an empty reshape without batching")
    elif any(dim == 0 or dim < -1 for dim in shape):
        yield model.finding("T005", where, f"{title}: a dim is -1 or at least 1, in reshape too")
    elif dims.count(-1) != shape.count(-1):
        yield model.finding("T006", where, wrong, "keep as many -1 as in dims")
    elif _runs(dims) != _runs(shape):
        yield model.finding("T006", where, wrong, "keep the number of elements")


def _runs(dims: Sequence[int]) -> list[int]:
    """Return the number of elements before, between and after dims of any size."""
    runs: list[int] = []
    current: list[int] = []
    for dim in dims:
        if dim == -1:
            runs.append(math.prod(current))
            current = []
        else:
            current.append(dim)
    return [*runs, math.prod(current)]


def _input_only(model: Model, path: FieldPath, title: str, tensor: Input) -> Iterator[Finding]:
    if tensor.format in ("FORMAT_NCHW", "FORMAT_NHWC") and tensor.dims and len(tensor.dims) != 3:
        yield model.finding(
            "T007",
            (*path, "format"),
            f"{title}: {tensor.format} is for three dims, got {shapes.text(tensor.dims)}",
        )
    if tensor.allow_ragged_batch and model.max_batch_size == 0:
        yield model.finding(
            "T008",
            (*path, "allow_ragged_batch"),
            f"{title}: allow_ragged_batch without batching",
            "set max_batch_size",
        )


def scheduling_findings(model: Model) -> Iterator[Finding]:
    """Yield what is wrong with batching, queues, priorities and the response cache."""
    config = model.config
    batching = config.dynamic_batching
    if batching is not None and model.backend != "ensemble":
        at: FieldPath = ("dynamic_batching",)
        limit = model.max_batch_size
        yield from _preferred(model, (*at, "preferred_batch_size"), batching.preferred_batch_size)
        if limit == 0:
            yield model.finding(
                "D011",
                at,
                "dynamic_batching with max_batch_size 0: nothing is batched",
                "set max_batch_size, or remove dynamic_batching",
            )
        yield from _priorities(model)
        policies = [batching.default_queue_policy, *batching.priority_queue_policy.values()]
        if not any(_ends(policy) for policy in policies):
            yield model.finding(
                "D005",
                at,
                "requests wait without a limit of number or time",
                "default_queue_policy { default_timeout_microseconds: …  max_queue_size: … }",
            )
    sequence = config.sequence_batching
    if sequence is not None and sequence.oldest is not None:
        where = ("sequence_batching", "oldest", "preferred_batch_size")
        yield from _preferred(model, where, sequence.oldest.preferred_batch_size)
    yield from _cache(model)


def _preferred(model: Model, path: FieldPath, sizes: Sequence[int]) -> Iterator[Finding]:
    limit = model.max_batch_size
    for number, size in enumerate(sizes):
        if size < 1 or (limit is not None and size > limit):
            expected = f"1 to {limit}" if limit else "none without max_batch_size"
            yield model.finding(
                "D001", (*path, number), f"preferred_batch_size: expected {expected}, got {size}"
            )


def _ends(policy: QueuePolicy | None) -> bool:
    return policy is not None and bool(policy.max_queue_size or policy.default_timeout_microseconds)


def _priorities(model: Model) -> Iterator[Finding]:
    batching = model.config.dynamic_batching
    assert batching is not None
    levels = batching.priority_levels or 0
    default = batching.default_priority_level
    at: FieldPath = ("dynamic_batching",)
    if levels and not 1 <= (default or 0) <= levels:
        yield model.finding(
            "D003",
            (*at, "default_priority_level" if default is not None else "priority_levels"),
            f"default_priority_level: expected 1 to {levels}, got {default or 0}",
        )
    for level in batching.priority_queue_policy if levels else ():
        if not 1 <= level <= levels:
            yield model.finding(
                "D003",
                (*at, "priority_queue_policy", str(level)),
                f"priority_queue_policy: expected a level from 1 to {levels}, got {level}",
            )
    if batching.preserve_ordering:
        default_policy = batching.default_queue_policy
        delays = default_policy is not None and default_policy.timeout_action == "DELAY"
        if levels > 1 or delays:
            reason = f"{levels} priority levels" if levels > 1 else "timeout_action DELAY"
            yield model.finding(
                "D004", (*at, "preserve_ordering"), f"preserve_ordering with {reason}"
            )


def _cache(model: Model) -> Iterator[Finding]:
    config = model.config
    if config.response_cache is None or not config.response_cache.enable:
        return
    at: FieldPath = ("response_cache",)
    if config.model_transaction_policy is not None and config.model_transaction_policy.decoupled:
        yield model.finding("D009", at, "response_cache on a decoupled model")
    if model.source.reads_parameters:
        yield model.finding(
            "D010",
            at,
            "response_cache, but model.py reads the request's parameters",
            "make what it reads an input, or remove the cache",
        )


def instance_findings(model: Model, cores: int | None, gpus: int | None) -> Iterator[Finding]:
    """Yield what is wrong with the instance groups, on a machine with these cores and GPUs."""
    groups = model.config.instance_group
    if model.backend == "ensemble":
        return
    on_cpu = 0
    for number, group in enumerate(groups):
        at: FieldPath = ("instance_group", number)
        yield from _one_group(model, at, group, gpus)
        if group.kind == "KIND_CPU":
            on_cpu += group.count or 1
    if cores is not None and on_cpu > cores and not model.calls_models:
        yield model.finding(
            "D007",
            ("instance_group",),
            f"{on_cpu} instances on the CPU, {cores} cores",
            f"at most {cores}, unless they mostly wait",
        )


def _one_group(
    model: Model, at: FieldPath, group: InstanceGroup, gpus: int | None
) -> Iterator[Finding]:
    if (group.count or 0) < 0:
        yield model.finding("D012", (*at, "count"), f"count: expected 1 or more, got {group.count}")
    if group.kind in ("KIND_CPU", "KIND_MODEL") and group.gpus:
        yield model.finding(
            "D008", (*at, "gpus"), f"{group.kind} with a list of GPUs", "remove gpus, or KIND_GPU"
        )
    if gpus is None or group.kind == "KIND_CPU":
        return
    if group.kind == "KIND_GPU" and gpus == 0:
        yield model.finding("D013", (*at, "kind"), "KIND_GPU on a machine without a GPU")
        return
    for gpu in group.gpus:
        if gpu >= gpus:
            there = f"0 to {gpus - 1}" if gpus else "none"
            yield model.finding("D013", (*at, "gpus"), f"gpus: the machine has {there}, got {gpu}")


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
