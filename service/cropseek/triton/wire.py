"""How a PictureResult travels as `image_search`'s output tensors, both ways."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cropseek.errors import CropseekError, all_errors, from_code
from cropseek.triton.pipeline import STAGES
from cropseek.types import Detections, Neighbors, PictureResult

# Always asked for, whatever a request wants besides.
BASE_OUTPUTS = ("SIZE_WH", "BOXES_XYXY", "SCORES", "CLASS_IDS", "TRUNCATED", "STAGES_MS")
EMBEDDING_OUTPUTS = ("EMBEDDINGS",)
NEIGHBOR_OUTPUTS = ("ITEM_IDS", "SIMILARITIES", "INDEX_SEQUENCE")
# An ensemble puts its name before its members' messages.
_ERROR = re.compile(
    r"(in ensemble '[^']*', )?"
    rf"(?P<code>{'|'.join(sorted({cls.code for cls in all_errors()}))}): (?P<text>.*)",
    re.DOTALL,
)


def to_tensors(result: PictureResult) -> dict[str, NDArray[Any]]:
    """Return every output of `image_search`, each with the leading batch dimension of 1."""
    n = len(result.detections)
    neighbors = result.neighbors
    nothing = np.zeros((n, 0), np.float32)
    stages = [result.timings_ms.get(stage, 0.0) for stage in STAGES]
    arrays = {
        "SIZE_WH": np.array(result.size_wh, np.int32),
        "BOXES_XYXY": result.detections.boxes_xyxy,
        "SCORES": result.detections.scores,
        "CLASS_IDS": result.detections.class_ids,
        "TRUNCATED": np.array([result.truncated]),
        "EMBEDDINGS": nothing if result.embeddings is None else result.embeddings,
        "ITEM_IDS": nothing.astype(np.int64) if neighbors is None else neighbors.item_ids,
        "SIMILARITIES": nothing if neighbors is None else neighbors.similarities,
        "INDEX_SEQUENCE": np.array([result.index_sequence], np.int64),
        "STAGES_MS": np.array(stages, np.float32),
    }
    return {name: array[None] for name, array in arrays.items()}


def from_tensors(arrays: Mapping[str, NDArray[Any]]) -> PictureResult:
    """Return the result that `to_tensors` wrote; outputs not asked for are None."""
    row = {name: array[0] for name, array in arrays.items()}
    neighbors, sequence = None, 0
    if "ITEM_IDS" in row:
        neighbors = Neighbors(row["ITEM_IDS"], row["SIMILARITIES"])
        sequence = int(row["INDEX_SEQUENCE"][0])
    width, height = (int(v) for v in row["SIZE_WH"])
    return PictureResult(
        size_wh=(width, height),
        detections=Detections(row["BOXES_XYXY"], row["SCORES"], row["CLASS_IDS"]),
        embeddings=row.get("EMBEDDINGS"),
        neighbors=neighbors,
        index_sequence=sequence,
        truncated=bool(row["TRUNCATED"][0]),
        timings_ms={s: float(ms) for s, ms in zip(STAGES, row["STAGES_MS"], strict=True)},
    )


def error_message(error: CropseekError) -> str:
    """Return a cropseek error as a Triton error's message, its code in front.

    A model called by BLS loses its error's code on the way (it arrives as INTERNAL), so the code
    travels in the text.
    """
    return f"{error.code}: {error}"


def parse_error(message: str) -> CropseekError | None:
    """Return the cropseek error that `error_message` wrote; None if Triton wrote the message."""
    match = _ERROR.match(message)
    return from_code(match["code"], match["text"]) if match else None
