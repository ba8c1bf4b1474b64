"""The path of one picture through Triton's models, as `image_search` runs it.

Written against a function that calls a model, so that the order of things can be read and tested
without a server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cropseek.triton.frame import received
from cropseek.types import (
    Float32Array,
    Neighbors,
    PictureOptions,
    PictureResult,
    Uint8Array,
)
from cropseek.vision.crop import crop_boxes
from cropseek.vision.detection import select_regions
from cropseek.vision.geometry import Letterbox

STAGES = ("detect", "crop", "embed", "search")
Arrays = Mapping[str, NDArray[Any]]
# Calls a model with its inputs and request parameters, and returns the named outputs.
CallModel = Callable[[str, Arrays, Sequence[str], Mapping[str, bool]], Arrays]


class Pipeline:
    """Detect, crop, embed and search one picture after another.

    `crop_side` is the embedder's input in pixels; `most_crops` is how many one call may hold:
    more are sent in several calls.
    """

    detect_outputs: Sequence[str] = ("DETECTIONS", "FITTED", "FRAME")

    def __init__(self, call: CallModel, crop_side: int, most_crops: int) -> None:
        self._call = call
        self.crop_side = crop_side
        self._most_crops = most_crops

    def run(self, image: Uint8Array, options: PictureOptions) -> PictureResult:
        """Return what is in a picture, given as encoded bytes uint8 `[n]`."""
        clock = _Clock()
        parameters = {"all_cores": True} if options.alone else {}
        found = self._call("detect", {"IMAGE": image[None]}, self.detect_outputs, parameters)
        fitted = Letterbox.from_array(found["FITTED"][0])
        regions, truncated = select_regions(found["DETECTIONS"][0], fitted, options)
        clock.lap("detect")
        embeddings, neighbors, sequence = None, None, 0
        if options.embed and len(regions):
            crops = self.crop(image, found, regions.boxes_xyxy)
            clock.lap("crop")
            embeddings = self._embed(crops, parameters)
            clock.lap("embed")
        if options.collection_id is not None and embeddings is not None:
            neighbors, sequence = self._search(embeddings, options.collection_id, options)
            clock.lap("search")
        return PictureResult(
            fitted.size_wh, regions, embeddings, neighbors, sequence, truncated, clock.laps_ms
        )

    def crop(self, image: Uint8Array, found: Arrays, boxes_xyxy: Float32Array) -> Uint8Array:
        """Return the crops uint8 `[n, 3, side, side]` of a picture's boxes."""
        frame_rgb = received(found["FRAME"][0], image)
        return crop_boxes(frame_rgb, boxes_xyxy, self.crop_side)

    def _embed(self, crops: Uint8Array, parameters: Mapping[str, bool]) -> Float32Array:
        most = self._most_crops
        batches = [crops[start : start + most] for start in range(0, len(crops), most)]
        parts = [
            self._call("embedder", {"CROPS": batch}, ("EMBEDDINGS",), parameters)
            for batch in batches
        ]
        vectors = [part["EMBEDDINGS"] for part in parts]
        return vectors[0] if len(vectors) == 1 else np.concatenate(vectors)

    def _search(
        self, queries: Float32Array, collection_id: int, options: PictureOptions
    ) -> tuple[Neighbors, int]:
        def each(value: float, dtype: type[np.generic]) -> NDArray[Any]:
            return np.full((len(queries), 1), value, dtype)

        inputs = {
            "QUERIES": queries,
            "COLLECTION": each(collection_id, np.int64),
            "TOP_K": each(options.top_k, np.int32),
            "MIN_SIMILARITY": each(options.min_similarity, np.float32),
        }
        outputs = ("ITEM_IDS", "SIMILARITIES", "INDEX_SEQUENCE")
        found = self._call("vector_search", inputs, outputs, {})
        neighbors = Neighbors(found["ITEM_IDS"], found["SIMILARITIES"])
        return neighbors, int(found["INDEX_SEQUENCE"][0, 0])


class _Clock:
    """Times one stage after another, in milliseconds."""

    def __init__(self) -> None:
        self.laps_ms: dict[str, float] = {}
        self._last = perf_counter()

    def lap(self, stage: str) -> None:
        now = perf_counter()
        self.laps_ms[stage] = (now - self._last) * 1e3
        self._last = now
