"""Sessions that take rows a few at a time: whatever the parts, each row's result is its own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from cropseek.triton.backends.onnxruntime.sessions import ElasticSession, SessionSettings
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
def session(model: Path, request: pytest.FixtureRequest) -> ElasticSession:
    """A session of each kind."""
    threads, rows_per_run = request.param
    return ElasticSession(model, SessionSettings(threads, rows_per_run))


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
    assert result["MEAN"].tolist() == [12, 22, 32]


def test_a_file_that_is_no_model_stops_the_load(tmp_path: Path) -> None:
    """And names it."""
    path = tmp_path / "model.onnx"
    path.write_bytes(b"no model")
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.InvalidProtobuf, match=r"model\.onnx"):
        ElasticSession(path, SessionSettings(threads=1))
