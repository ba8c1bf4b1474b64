"""Rules about batching, queues, priorities, the response cache, and instances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cropseek.triton.check.findings import Finding
from cropseek.triton.check.model import Model
from cropseek.triton.codec import FieldPath
from cropseek.triton.config import InstanceGroup, QueuePolicy

QUEUE_EXAMPLE = "default_queue_policy { default_timeout_microseconds: 1000000 max_queue_size: 64 }"


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
                f"in dynamic_batching, for example: {QUEUE_EXAMPLE}",
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
        policies = [batching.default_queue_policy, *batching.priority_queue_policy.values()]
        delays = any(policy and policy.timeout_action == "DELAY" for policy in policies)
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
