"""ONNX Runtime sessions that fit their threads to the work at hand.

Two things are wanted of the same cores. A picture that is alone should be spread over all of them;
many pictures should each keep to one core, since a convolution on two threads is slower than two
convolutions on one thread each. So a model has a *narrow* session (one thread), run by as many
Python threads as there are cores, each taking the next rows as it becomes free, and a *wide* one
(all threads) for a request that says nothing else is in work. docs/performance.md says what each of
this gave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
        self._threads = settings.threads
        self._rows_per_run = settings.rows_per_run
        self._narrow = _session(path, settings, threads=1)
        self._wide = _session(path, settings, settings.threads) if settings.threads > 1 else None
        self._lanes = ThreadPoolExecutor(settings.threads, thread_name_prefix="lane")
        self.output_names: list[str] = [output.name for output in self._narrow.get_outputs()]

    def run(self, batches: Sequence[Tensors], *, all_cores: bool = False) -> list[Tensors]:
        """Run several requests' inputs, each name to `[rows, ...]`; returns each one's outputs.

        `all_cores` says that nothing else is in work: fewer rows than threads are then run on all
        threads together.
        """
        sizes = [len(next(iter(batch.values()))) for batch in batches]
        rows = sum(sizes)
        if all_cores and self._wide is not None and rows < self._threads:
            outputs = [self._wide.run(None, dict(_rows(batches, sizes, 0, rows)))]
        else:
            parts = list(split_rows(rows, self._threads, self._rows_per_run))
            outputs = list(self._lanes.map(lambda part: self._run(batches, sizes, *part), parts))
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

    def _run(
        self, batches: Sequence[Tensors], sizes: Sequence[int], start: int, stop: int
    ) -> list[NDArray[Any]]:
        outputs: list[NDArray[Any]] = self._narrow.run(
            None, dict(_rows(batches, sizes, start, stop))
        )
        return outputs

    def close(self) -> None:
        """Stop the threads."""
        self._lanes.shutdown()


def split_rows(rows: int, lanes: int, most: int) -> Iterator[tuple[int, int]]:
    """Cut `rows` into parts of at most `most`, smaller near the end so that lanes end together."""
    start = 0
    while start < rows:
        stop = start + min(most, -(-(rows - start) // lanes))
        yield start, stop
        start = stop


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
