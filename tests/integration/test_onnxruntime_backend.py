"""The `onnxruntime` backend in a real Triton: what a request that fails does to its batch."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
import tritonclient.grpc as triton
from onnx import TensorProto, helper
from tritonclient.utils import InferenceServerException

from cropseek.settings import Settings
from cropseek.triton.launcher import TritonServer

TABLE = [10.0, 11.0, 12.0, 13.0]
CONFIG = """
backend: "onnxruntime"
max_batch_size: 8
input [ { name: "INDEX" data_type: TYPE_INT64 dims: [ 1 ] } ]
output [ { name: "VALUE" data_type: TYPE_FP32 dims: [ 1 ] } ]
dynamic_batching { max_queue_delay_microseconds: 10000000 }
instance_group [ { kind: KIND_CPU count: 1 } ]
"""


def write_lookup(folder: Path) -> None:
    """Write a model that looks an index up in `TABLE`, and fails for one beyond it."""
    graph = helper.make_graph(
        [helper.make_node("Gather", ["TABLE", "INDEX"], ["VALUE"])],
        "lookup",
        [helper.make_tensor_value_info("INDEX", TensorProto.INT64, ["n", 1])],
        [helper.make_tensor_value_info("VALUE", TensorProto.FLOAT, ["n", 1])],
        [helper.make_tensor("TABLE", TensorProto.FLOAT, [len(TABLE)], TABLE)],
    )
    (folder / "1").mkdir(parents=True)
    (folder / "configs").mkdir()
    opset = helper.make_opsetid("", 17)
    onnx.save(
        helper.make_model(graph, opset_imports=[opset], ir_version=8), folder / "1" / "model.onnx"
    )
    (folder / "configs" / "cpu.pbtxt").write_text(CONFIG)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Triton that serves the look-up beside our models."""
    folder = tmp_path_factory.mktemp("lookup")
    repository = folder / "models"
    shutil.copytree(Settings().model_repository, repository)
    write_lookup(repository / "lookup")
    with TritonServer(Settings(data_dir=folder / "data", model_repository=repository)) as server:
        yield server.target


def look_up(client: triton.InferenceServerClient, index: int) -> float | str:
    """Return the value, or the error's code."""
    wanted = triton.InferInput("INDEX", [1, 1], "INT64")
    wanted.set_data_from_numpy(np.array([[index]], np.int64))
    try:
        answer = client.infer("lookup", [wanted], client_timeout=30)
    except InferenceServerException as error:
        return str(error.status())
    return float(answer.as_numpy("VALUE")[0, 0])


def test_a_request_that_fails_harms_none_of_those_that_it_meets(target: str) -> None:
    """They are answered, and so are the next: Triton has not died of it.

    Eight are sent, for whom the batcher waits long, so that they are one batch.
    """
    failed = "StatusCode.INTERNAL"
    with triton.InferenceServerClient(target) as client, ThreadPoolExecutor(8) as threads:
        for _ in range(2):
            found = threads.map(lambda index: look_up(client, index), [0, 1, 2, 99, 3, 98, 1, 2])
            assert [*found] == [10.0, 11.0, 12.0, failed, 13.0, failed, 11.0, 12.0]
        (model,) = client.get_inference_statistics("lookup").model_stats
        assert {batch.batch_size for batch in model.batch_stats} == {8}
