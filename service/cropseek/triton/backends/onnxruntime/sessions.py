"""ONNX Runtime sessions that fit their threads to the work at hand.

Two things are wanted of the same cores. Many pictures should each keep to one core, since a
convolution on two threads is slower than two convolutions on one thread each: so a model has an
instance a core, whose *narrow* session has one thread and takes a few rows a run, as many as stay
in the cache. A picture that is alone should have all cores: for a request that says so there is a
*wide* session with a thread a core. docs/performance.md says what each of this gave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

Tensors = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class SessionSettings:
    """How sessions are made: threads of the wide one, rows a narrow run takes, and what ONNX
    Runtime is told about the graph, memory and providers."""

    threads: int
    rows_per_run: int = 1
    graph_level: ort.GraphOptimizationLevel = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    inter_op_threads: int = 1
    parallel: bool = False
    memory_arena: bool = True
    memory_pattern: bool = True
    providers: tuple[str, ...] = ("CPUExecutionProvider",)


class ElasticSession:
    """One ONNX model on all cores, whether one row comes or many."""

    def __init__(self, path: Path, settings: SessionSettings) -> None:
        self._rows_per_run = settings.rows_per_run
        self._narrow = _session(path, settings, threads=1)
        self._wide = _session(path, settings, settings.threads) if settings.threads > 1 else None
        self.output_names: list[str] = [output.name for output in self._narrow.get_outputs()]

    def run(self, batches: Sequence[Tensors], *, all_cores: bool = False) -> list[Tensors]:
        """Run several requests' inputs, each name to `[rows, ...]`; returns each one's outputs.

        `all_cores` says that nothing else is in work; else one thread does it.
        """
        sizes = [len(next(iter(batch.values()))) for batch in batches]
        rows = sum(sizes)
        if all_cores and self._wide is not None:
            session, step = self._wide, rows
        else:
            session, step = self._narrow, self._rows_per_run
        outputs = [
            session.run(None, dict(_rows(batches, sizes, start, min(start + step, rows))))
            for start in range(0, rows, step)
        ]
        columns = [
            column[0] if len(column) == 1 else np.concatenate(column)
            for column in zip(*outputs, strict=True)
        ]
        ends = np.cumsum(sizes)
        return [
            {
                name: column[end - size : end]
                for name, column in zip(self.output_names, columns, strict=True)
            }
            for size, end in zip(sizes, ends, strict=True)
        ]


def _rows(
    batches: Sequence[Tensors], sizes: Sequence[int], start: int, stop: int
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield each input's rows `start:stop`, counted over all batches; copies only across two."""
    spans = []
    offset = 0
    for batch, size in zip(batches, sizes, strict=True):
        low, high = max(start - offset, 0), min(stop - offset, size)
        if low < high:
            spans.append((batch, slice(low, high)))
        offset += size
    for name in batches[0]:
        pieces = [batch[name][span] for batch, span in spans]
        yield name, pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _session(path: Path, settings: SessionSettings, threads: int) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = settings.inter_op_threads
    if settings.parallel:
        options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    options.graph_optimization_level = settings.graph_level
    options.enable_cpu_mem_arena = settings.memory_arena
    options.enable_mem_pattern = settings.memory_pattern
    # Threads of the wide session may spin while it runs, since nothing else does then; not after.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return ort.InferenceSession(path, options, providers=list(settings.providers))
