"""Results and errors as they travel through Triton: what is written is what is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig

from cropseek import errors
from cropseek.triton import wire
from cropseek.types import Detections, Neighbors, PictureResult

CONFIG = Path(__file__).parents[2] / "model_repository" / "image_search" / "configs" / "cpu.pbtxt"


def result(n: int, k: int | None = None, dim: int | None = None) -> PictureResult:
    """A result of `n` regions, with `k` neighbours and vectors of `dim` if given."""
    rng = np.random.default_rng(n)
    neighbors = None
    if k is not None:
        ids = rng.integers(1, 2**62, (n, k))
        neighbors = Neighbors(ids, rng.random((n, k), np.float32))
    return PictureResult(
        size_wh=(4000, 3000),
        detections=Detections(
            rng.random((n, 4), np.float32),
            rng.random(n, np.float32),
            rng.integers(-1, 80, n).astype(np.int32),
        ),
        embeddings=None if dim is None else rng.random((n, dim), np.float32),
        neighbors=neighbors,
        index_sequence=0 if k is None else 2**40 + n,
        truncated=n == 2,
        timings_ms={"detect": 80.5, "crop": 1.25, "embed": 9.0, "search": 0.5},
    )


@pytest.mark.parametrize(
    ("n", "k", "dim"),
    [
        pytest.param(0, None, None, id="nothing found"),
        pytest.param(0, 0, 5, id="nothing found, all asked for"),
        pytest.param(1, None, None, id="one region"),
        pytest.param(2, None, 5, id="vectors"),
        pytest.param(3, 4, 5, id="vectors and neighbours"),
        pytest.param(3, 0, 5, id="neighbours of an empty collection"),
        pytest.param(300, 2, 5, id="as many as there can be"),
    ],
)
def test_a_result_comes_back_as_it_was(n: int, k: int | None, dim: int | None) -> None:
    """Every field, from the outputs that are asked for."""
    sent = result(n, k, dim)
    names = list(wire.BASE_OUTPUTS)
    names += wire.EMBEDDING_OUTPUTS if dim is not None else ()
    names += wire.NEIGHBOR_OUTPUTS if k is not None else ()
    tensors = wire.to_tensors(sent)
    back = wire.from_tensors({name: tensors[name] for name in names})

    assert back.size_wh == (4000, 3000)
    np.testing.assert_array_equal(back.detections.boxes_xyxy, sent.detections.boxes_xyxy)
    np.testing.assert_array_equal(back.detections.scores, sent.detections.scores)
    np.testing.assert_array_equal(back.detections.class_ids, sent.detections.class_ids)
    assert back.truncated is sent.truncated
    assert back.index_sequence == sent.index_sequence
    assert back.timings_ms == sent.timings_ms
    assert (back.embeddings is None) == (dim is None)
    if back.embeddings is not None and sent.embeddings is not None:
        np.testing.assert_array_equal(back.embeddings, sent.embeddings)
    assert (back.neighbors is None) == (k is None)
    if back.neighbors is not None and sent.neighbors is not None:
        np.testing.assert_array_equal(back.neighbors.item_ids, sent.neighbors.item_ids)
        np.testing.assert_array_equal(back.neighbors.similarities, sent.neighbors.similarities)


@pytest.mark.parametrize(
    "sent",
    [result(0), result(2), result(2, 3, 5), result(0, 0, 5)],
    ids=["empty", "regions only", "all", "empty, all asked for"],
)
def test_tensors_are_what_the_model_declares(sent: PictureResult) -> None:
    """Names, types and shapes of `image_search`'s configuration, each with a batch of 1."""
    config = text_format.Parse(CONFIG.read_text(encoding="utf-8"), ModelConfig())
    tensors = wire.to_tensors(sent)
    assert list(tensors) == [output.name for output in config.output]
    for output in config.output:
        array = tensors[output.name]
        assert array.shape[0] == 1, output.name
        assert len(array.shape) == 1 + len(output.dims), output.name
        for length, dim in zip(array.shape[1:], output.dims, strict=True):
            assert dim in (-1, length), output.name
        assert TYPES[DataType.Name(output.data_type)] == array.dtype, output.name


TYPES: dict[str, type[np.generic]] = {
    "TYPE_BOOL": np.bool_,
    "TYPE_INT32": np.int32,
    "TYPE_INT64": np.int64,
    "TYPE_FP32": np.float32,
}


def test_the_outputs_by_name_are_all_there_are() -> None:
    """None is asked for that is not written, none written that cannot be asked for."""
    names = {*wire.BASE_OUTPUTS, *wire.EMBEDDING_OUTPUTS, *wire.NEIGHBOR_OUTPUTS}
    assert names == set(wire.to_tensors(result(1)))


def test_a_stage_that_did_not_run_took_no_time() -> None:
    """A picture without objects is neither cropped nor searched."""
    quick = PictureResult((1, 1), result(0).detections, timings_ms={"detect": 3.0})
    back = wire.from_tensors(wire.to_tensors(quick))
    assert back.timings_ms == {"detect": 3.0, "crop": 0.0, "embed": 0.0, "search": 0.0}


# ---- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (errors.InvalidInput("boxes[0]: expected"), errors.InvalidInput),
        (errors.InvalidImage("image: expected"), errors.InvalidInput),
        (errors.CollectionNotFound("collection: there is none"), errors.CollectionNotFound),
        (errors.EmbedderMismatch("collection"), errors.EmbedderMismatch),
        (errors.Overloaded("too many"), errors.Overloaded),
        (errors.NotReady("starting"), errors.NotReady),
        (errors.DeadlineExceeded("over"), errors.DeadlineExceeded),
        (errors.ModelFailed("embedder: it broke"), errors.ModelFailed),
        (errors.InvalidInput(""), errors.InvalidInput),
        (errors.InvalidInput("two\nlines: and 'quotes', INTERNAL: x"), errors.InvalidInput),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
@pytest.mark.parametrize("prefix", ["", "in ensemble 'detect', "], ids=["plain", "in an ensemble"])
def test_an_error_comes_back(
    sent: errors.CropseekError, expected: type[errors.CropseekError], prefix: str
) -> None:
    """Its kind, its code and its whole text, without what Triton puts before it."""
    back = wire.parse_error(prefix + wire.error_message(sent))
    assert type(back) is expected
    assert back.code == sent.code
    assert str(back) == str(sent)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "Stub process 'detect_0' is not healthy.",
        "INVALID_ARGUMENT",
        "NO_SUCH_CODE: text",
        "failed: INVALID_ARGUMENT: text",
        "in ensemble 'detect', Request timeout expired",
        "[StatusCode.INVALID_ARGUMENT] text",
    ],
)
def test_what_triton_says_itself_is_not_ours(message: str) -> None:
    """It is for the log only."""
    assert wire.parse_error(message) is None


def test_two_hops_do_not_pile_up_codes() -> None:
    """`image_search` reads a child's error and sends it on as its own."""
    first = wire.error_message(errors.InvalidImage("image: expected a picture"))
    there: Any = wire.parse_error(f"in ensemble 'detect', {first}")
    assert wire.error_message(there) == first
