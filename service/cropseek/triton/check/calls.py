"""Rules about which models call which: members of ensembles, and BLS."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter

from cropseek.triton.check.findings import Finding
from cropseek.triton.check.model import BLS_PARAMETER
from cropseek.triton.check.scheduling import QUEUE_EXAMPLE
from cropseek.triton.check.wires import Models, steps_of
from cropseek.triton.codec import FieldPath

_MOST_LISTED = 10


def member_findings(models: Models) -> Iterator[Finding]:
    """Yield members of ensembles that could batch and do not."""
    members = {step.model_name for model in models.values() for step in steps_of(model)}
    for name in sorted(members & set(models), key=str):
        model = models[str(name)]
        config = model.config
        batches = config.dynamic_batching is not None or config.sequence_batching is not None
        if (config.max_batch_size or 0) > 1 and not batches and model.backend != "ensemble":
            yield model.finding(
                "D006",
                ("max_batch_size",),
                f"max_batch_size {config.max_batch_size}, but requests are not put together",
                f"for example: dynamic_batching {{ {QUEUE_EXAMPLE} }}",
            )


def call_findings(models: Models) -> Iterator[Finding]:
    """Yield what is wrong with who calls whom: ensembles their members, BLS what it declares."""
    calls: dict[str, list[str]] = {}
    for model in models.values():
        members = [step.model_name for step in steps_of(model) if step.model_name]
        calls[model.name] = [name for name in [*members, *model.calls] if name in models]
        for name in model.calls:
            if name not in models:
                yield model.finding(
                    "B001",
                    ("parameters", BLS_PARAMETER),
                    f"it calls {name!r}, which is not in the repository",
                    models_there(name, models, but=model.name),
                )
    for cycle in cycles(calls):
        model = models[cycle[0]]
        path: FieldPath = ("parameters", BLS_PARAMETER) if model.calls else ("ensemble_scheduling",)
        by_bls = any(models[name].calls for name in cycle)
        said = f"these models call each other: {' → '.join([*cycle, cycle[0]])}"
        yield model.finding("B002" if by_bls else "E011", path, said)


def models_there(meant: str, models: Models, but: str) -> str:
    """Return which models there are, those first that are called much as the one meant."""
    others = sorted(set(models) - {but})
    near = get_close_matches(meant, others, 3)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    if len(others) > _MOST_LISTED:
        return f"models: {', '.join(others[:_MOST_LISTED])} and {len(others) - _MOST_LISTED} more"
    return f"models: {', '.join(others) or 'none'}"


def cycles(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return cycles of a graph so that without one edge of each it has none left."""
    left = {node: set(targets) for node, targets in edges.items()}
    order = {node: number for number, node in enumerate(edges)}
    found: list[list[str]] = []
    while True:
        try:
            TopologicalSorter(left).prepare()
            return sorted(found, key=lambda cycle: order[cycle[0]])
        except CycleError as error:
            # Each node of its cycle is a target of the next one; the last is the first again.
            cycle: list[str] = error.args[1][:0:-1]
            left[cycle[-1]].discard(cycle[0])
            first = cycle.index(min(cycle, key=order.__getitem__))
            found.append(cycle[first:] + cycle[:first])
