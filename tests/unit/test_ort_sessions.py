"""Sessions that split rows over threads: whatever the split, each row's result is its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from cropseek.triton.backends.onnxruntime.sessions import (
    ElasticSession,
    SessionSettings,
    split_rows,
)
from cropseek.types import Float32Array


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two inputs, two outputs: `SUM[i] = A[i] + B[i]` and `MEAN[i]` of A's row."""
    rows = "rows"
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["A", "B"], ["SUM"]),
            helper.make_node("ReduceMean", ["A"], ["MEAN"], axes=[1], keepdims=0),
        ],
        "tiny",
        [
            helper.make_tensor_value_info("A", TensorProto.FLOAT, [rows, 3]),
            helper.make_tensor_value_info("B", TensorProto.FLOAT, [rows, 1]),
        ],
        [
            helper.make_tensor_value_info("SUM", TensorProto.FLOAT, [rows, 3]),
            helper.make_tensor_value_info("MEAN", TensorProto.FLOAT, [rows]),
        ],
    )
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path
    )
    return path


SETTINGS = [(1, 1), (1, 4), (2, 1), (2, 3), (3, 2), (4, 100)]


@pytest.fixture(
    scope="module", params=SETTINGS, ids=[f"{t} threads, {r} rows a run" for t, r in SETTINGS]
)
def session(model: Path, request: pytest.FixtureRequest) -> Iterator[ElasticSession]:
    """A session of each kind."""
    threads, rows_per_run = request.param
    made = ElasticSession(model, SessionSettings(threads, rows_per_run))
    yield made
    made.close()


def batch(rows: Sequence[int]) -> dict[str, Float32Array]:
    """A request whose rows have these numbers."""
    numbers = np.array(rows, np.float32)[:, None]
    return {"A": numbers * 10 + np.array([0, 1, 5], np.float32), "B": numbers / 4}


def cut(rows: int, batches: int) -> list[list[int]]:
    """The numbers 1 to `rows` in so many requests: as the batcher might hand them over."""
    ends = np.linspace(0, rows, batches + 1).astype(int)
    return [list(range(start + 1, end + 1)) for start, end in itertools.pairwise(ends)]


@pytest.mark.parametrize("all_cores", [False, True], ids=["shared", "all cores"])
@pytest.mark.parametrize("batches", [1, 2, 3, 4])
def test_every_row_gets_its_result(session: ElasticSession, batches: int, all_cores: bool) -> None:
    """Each request its own rows, in order, whatever the threads, the parts and the requests."""
    for rows in range(batches, 10):
        requests = cut(rows, batches)
        results = session.run([batch(numbers) for numbers in requests], all_cores=all_cores)
        assert len(results) == batches
        for numbers, result in zip(requests, results, strict=True):
            assert list(result) == ["SUM", "MEAN"]
            sums = [[10.25 * n, 10.25 * n + 1, 10.25 * n + 5] for n in numbers]
            assert result["SUM"].tolist() == sums
            assert result["MEAN"].tolist() == [10 * n + 2 for n in numbers]


def test_many_rows_in_many_requests(session: ElasticSession) -> None:
    """257 rows, in requests of 1, 2, 3 … rows."""
    sizes = [*range(1, 23), 4]
    ends = np.cumsum(sizes)
    requests = [list(range(end - size, end)) for size, end in zip(sizes, ends, strict=True)]
    results = session.run([batch(numbers) for numbers in requests])
    found: NDArray[np.float32] = np.concatenate([result["MEAN"] for result in results])
    np.testing.assert_array_equal(found, 10 * np.arange(257) + 2)


def test_output_names_are_in_the_models_order(session: ElasticSession) -> None:
    """Results are told by these."""
    assert session.output_names == ["SUM", "MEAN"]


def test_a_failing_run_raises_and_the_next_one_works(session: ElasticSession) -> None:
    """ONNX Runtime's own error; no thread is lost."""
    for _ in range(5):
        with pytest.raises(ort.capi.onnxruntime_pybind11_state.InvalidArgument):
            session.run([{"A": np.zeros((9, 4), np.float32), "B": np.zeros((9, 1), np.float32)}])
    (result,) = session.run([batch([1])])
    assert result["MEAN"].tolist() == [12]


def test_settings_reach_the_runtime(model: Path) -> None:
    """A parallel session without arena and optimisation gives the same results."""
    session = ElasticSession(
        model,
        SessionSettings(
            threads=2,
            graph_level=ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
            inter_op_threads=2,
            parallel=True,
            memory_arena=False,
            memory_pattern=False,
        ),
    )
    (result,) = session.run([batch([1, 2, 3])])
    session.close()
    assert result["MEAN"].tolist() == [12, 22, 32]


def test_a_file_that_is_no_model_stops_the_load(tmp_path: Path) -> None:
    """And names it."""
    path = tmp_path / "model.onnx"
    path.write_bytes(b"no model")
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.InvalidProtobuf, match=r"model\.onnx"):
        ElasticSession(path, SessionSettings(threads=1))


# ---- the split ----------------------------------------------------------------------------------


def test_no_rows_are_no_parts() -> None:
    """Nothing to run."""
    assert list(split_rows(0, 4, 2)) == []


@pytest.mark.parametrize(
    ("rows", "lanes", "most", "expected"),
    [
        pytest.param(1, 4, 8, [(0, 1)], id="one row"),
        pytest.param(4, 4, 8, [(0, 1), (1, 2), (2, 3), (3, 4)], id="one each"),
        pytest.param(6, 2, 2, [(0, 2), (2, 4), (4, 5), (5, 6)], id="smaller near the end"),
        pytest.param(8, 2, 8, [(0, 4), (4, 6), (6, 7), (7, 8)], id="halves of what is left"),
        pytest.param(5, 1, 2, [(0, 2), (2, 4), (4, 5)], id="one lane"),
        pytest.param(3, 1, 99, [(0, 3)], id="one lane, all at once"),
    ],
)
def test_split_gives_known_parts(
    rows: int, lanes: int, most: int, expected: list[tuple[int, int]]
) -> None:
    """What is left over the lanes, rounded up, at most `most`."""
    assert list(split_rows(rows, lanes, most)) == expected


@pytest.mark.parametrize("lanes", [1, 2, 3, 8, 64])
@pytest.mark.parametrize("most", [1, 2, 5, 32])
def test_split_covers_every_row_once(lanes: int, most: int) -> None:
    """In order, no part empty, larger than allowed, or larger than the one before."""
    for rows in range(1, 70):
        parts = list(split_rows(rows, lanes, most))
        assert [n for start, stop in parts for n in range(start, stop)] == list(range(rows))
        sizes = [stop - start for start, stop in parts]
        assert 1 <= min(sizes) <= max(sizes) <= most
        assert sizes == sorted(sizes, reverse=True)
        assert len(parts) >= min(rows, lanes)  # no lane is idle while there are rows for it
