"""The path of a picture through the models, with functions in the models' place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from cropseek.errors import InvalidInput
from cropseek.triton.pipeline import STAGES, Arrays, Pipeline
from cropseek.types import PictureOptions, Regions, Uint8Array
from cropseek.vision.crop import crop_boxes
from cropseek.vision.geometry import Letterbox
from tests.builders import encoded, noise

SIDE = 8
FRAME = noise(64, 48)
FITTED = Letterbox.fit((64, 48), 640)
ENCODED = encoded(Image.fromarray(FRAME), "PNG")
IMAGE = np.frombuffer(ENCODED, np.uint8)


class Models:
    """What Triton would be: `count` objects in a row; a vector is its crop's mean colour.

    `calls` tells each model called, with its inputs, the outputs asked for and the parameters.
    The frame is sent if `sends_frame`, else its place is empty.
    """

    def __init__(self, count: int, *, sends_frame: bool = True) -> None:
        self.sends_frame = sends_frame
        self.rows = np.zeros((1, 300, 6), np.float32)
        left = np.arange(count) * 2
        self.rows[0, :count, 0] = left
        self.rows[0, :count, 1] = 80
        self.rows[0, :count, 2] = left + 40
        self.rows[0, :count, 3] = 120
        self.rows[0, :count, 4] = np.linspace(0.9, 0.5, count)
        self.rows[0, :count, 5] = np.arange(count) % 80
        self.calls: list[tuple[str, Arrays, Sequence[str], Mapping[str, bool]]] = []

    def __call__(
        self, model: str, inputs: Arrays, outputs: Sequence[str], parameters: Mapping[str, bool]
    ) -> Arrays:
        """Run a model."""
        self.calls.append((model, inputs, outputs, parameters))
        return getattr(self, model)(**inputs)  # type: ignore[no-any-return]

    def detect(self, IMAGE: Uint8Array) -> dict[str, NDArray[Any]]:
        """The ensemble."""
        frame = FRAME[None] if self.sends_frame else np.zeros((1, 0, 0, 3), np.uint8)
        return {"DETECTIONS": self.rows, "FITTED": FITTED.to_array()[None], "FRAME": frame}

    def embedder(self, CROPS: Uint8Array) -> dict[str, NDArray[Any]]:
        """Means, not normalised."""
        return {"EMBEDDINGS": CROPS.mean(axis=(2, 3)).astype(np.float32)}

    def vector_search(self, QUERIES: NDArray[Any], **inputs: NDArray[Any]) -> Arrays:
        """Ids that tell the row."""
        n, k = len(QUERIES), int(inputs["TOP_K"][0, 0])
        ids = np.arange(n * k, dtype=np.int64).reshape(n, k)
        return {
            "ITEM_IDS": ids,
            "SIMILARITIES": np.ones((n, k), np.float32),
            "INDEX_SEQUENCE": np.full((n, 1), 2**40, np.int64),
        }

    def called(self) -> list[str]:
        """The names of the models called."""
        return [model for model, *_ in self.calls]


def test_a_picture_without_objects_ends_after_detect() -> None:
    """The embedder is never called with nothing, nor the index."""
    models = Models(0)
    result = Pipeline(models, SIDE, 4).run(IMAGE, PictureOptions(collection_id=1, top_k=5))
    assert models.called() == ["detect"]
    assert len(result.detections) == 0
    assert result.size_wh == (64, 48)
    assert result.embeddings is None
    assert result.neighbors is None
    assert result.index_sequence == 0
    assert list(result.timings_ms) == ["detect"]


def test_detect_gets_the_bytes_of_one_picture() -> None:
    """As `[1, n]`, and is asked for what is needed."""
    models = Models(0)
    Pipeline(models, SIDE, 4).run(IMAGE, PictureOptions())
    ((_, inputs, outputs, _),) = models.calls
    np.testing.assert_array_equal(inputs["IMAGE"], IMAGE[None])
    assert set(outputs) == {"DETECTIONS", "FITTED", "FRAME"}


@pytest.mark.parametrize(
    ("options", "called"),
    [
        (PictureOptions(embed=False), ["detect"]),
        (PictureOptions(), ["detect", "embedder"]),
        (PictureOptions(collection_id=0, top_k=3), ["detect", "embedder", "vector_search"]),
        (PictureOptions(collection_id=7, top_k=3, embed=False), ["detect"]),
    ],
    ids=["detect only", "embed", "search", "nothing embedded to search with"],
)
def test_what_is_asked_for_is_called(options: PictureOptions, called: list[str]) -> None:
    """Collection 0 is a collection. Each stage that ran has its time."""
    models = Models(2)
    result = Pipeline(models, SIDE, 4).run(IMAGE, options)
    assert models.called() == called
    assert (result.embeddings is not None) == ("embedder" in called)
    assert (result.neighbors is not None) == ("vector_search" in called)
    assert list(result.timings_ms) == list(STAGES[: {1: 1, 2: 3, 3: 4}[len(called)]])
    assert min(result.timings_ms.values()) >= 0


@pytest.mark.parametrize("sends_frame", [True, False], ids=["frame sent", "decoded again"])
def test_boxes_are_in_the_picture_and_crops_are_cut_from_the_frame(sends_frame: bool) -> None:
    """A tenth of the square's pixels: what the embedder gets is what `crop_boxes` cuts."""
    models = Models(3, sends_frame=sends_frame)
    result = Pipeline(models, SIDE, 300).run(IMAGE, PictureOptions())
    boxes = result.detections.boxes_xyxy
    expected = [[n * 0.2, 0, n * 0.2 + 4, 4] for n in range(3)]
    np.testing.assert_allclose(boxes, expected, atol=1e-5)
    _, inputs, *_ = models.calls[1]
    np.testing.assert_array_equal(inputs["CROPS"], crop_boxes(FRAME, boxes, SIDE))


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(1, [1]), (3, [3]), (4, [4]), (5, [4, 1]), (8, [4, 4]), (9, [4, 4, 1]), (300, [4] * 75)],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
def test_more_crops_than_a_call_holds_are_split(count: int, sizes: list[int]) -> None:
    """In order, none lost, none twice: the same vectors as in one call."""
    models = Models(count)
    result = Pipeline(models, SIDE, 4).run(IMAGE, PictureOptions())
    calls = [inputs["CROPS"] for model, inputs, *_ in models.calls if model == "embedder"]
    assert [len(crops) for crops in calls] == sizes
    whole = Pipeline(Models(count), SIDE, 300).run(IMAGE, PictureOptions())
    assert result.embeddings is not None
    assert whole.embeddings is not None
    assert result.embeddings.shape == (count, 3)
    assert result.embeddings.dtype == np.float32
    np.testing.assert_array_equal(result.embeddings, whole.embeddings)


def test_a_search_says_what_it_wants_in_every_row() -> None:
    """So that requests meet in the batcher; types and shapes are the model's."""
    models = Models(2)
    options = PictureOptions(collection_id=2**40, top_k=3, min_similarity=0.25)
    result = Pipeline(models, SIDE, 4).run(IMAGE, options)
    _, inputs, outputs, _ = models.calls[-1]
    assert set(outputs) == {"ITEM_IDS", "SIMILARITIES", "INDEX_SEQUENCE"}
    assert inputs["QUERIES"] is result.embeddings
    rows = {name: array for name, array in inputs.items() if name != "QUERIES"}
    assert {name: (str(array.dtype), array.tolist()) for name, array in rows.items()} == {
        "COLLECTION": ("int64", [[2**40], [2**40]]),
        "TOP_K": ("int32", [[3], [3]]),
        "MIN_SIMILARITY": ("float32", [[0.25], [0.25]]),
    }
    assert result.neighbors is not None
    assert result.neighbors.item_ids.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert result.index_sequence == 2**40


def test_the_regions_asked_for_are_embedded() -> None:
    """The whole picture before the objects, and the flag of those left out."""
    options = PictureOptions(Regions.DETECTIONS_AND_WHOLE_PICTURE, max_detections=2)
    result = Pipeline(Models(5), SIDE, 4).run(IMAGE, options)
    assert len(result.detections) == 3
    assert result.truncated
    assert result.embeddings is not None
    whole = crop_boxes(FRAME, np.array([[0, 0, 64, 48]], np.float32), SIDE).mean(axis=(2, 3))
    np.testing.assert_allclose(result.embeddings[0], whole[0], rtol=1e-6)


@pytest.mark.parametrize("alone", [True, False])
def test_a_lone_picture_may_have_every_core(alone: bool) -> None:
    """The models that run ONNX are told; the index is not asked to."""
    models = Models(5)
    Pipeline(models, SIDE, 4).run(IMAGE, PictureOptions(alone=alone, collection_id=1, top_k=1))
    told = {"all_cores": True} if alone else {}
    assert [(model, dict(parameters)) for model, _, _, parameters in models.calls] == [
        ("detect", told),
        ("embedder", told),
        ("embedder", told),
        ("vector_search", {}),
    ]


def test_a_models_error_passes_through() -> None:
    """As what it is, and nothing more is called."""

    def broken(
        model: str, inputs: Arrays, outputs: Sequence[str], parameters: Mapping[str, bool]
    ) -> Arrays:
        raise InvalidInput(f"image: {model} does not like it")

    with pytest.raises(InvalidInput, match="detect does not like it"):
        Pipeline(broken, SIDE, 4).run(IMAGE, PictureOptions())
