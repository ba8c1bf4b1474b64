"""The stages of a picture in one process, without a server: what the server is measured against."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort

from cropseek.settings import Settings
from cropseek.types import Float32Array, PictureOptions
from cropseek.vision.crop import crop_boxes
from cropseek.vision.decode import decode_image
from cropseek.vision.detection import select_regions
from cropseek.vision.geometry import letterbox

DETECTOR_SIDE, CROP_SIDE = 640, 224


class Stages:
    """This project's decode, letterbox, crop and its two ONNX files, called one after another.

    `threads` 0 leaves ONNX Runtime's defaults (all cores, spinning); `crops_a_run` 0 embeds all
    crops of a picture in one run.
    """

    def __init__(
        self,
        threads: int = 0,
        *,
        spinning: bool = True,
        crops_a_run: int = 0,
        model_repository: Path | None = None,
    ) -> None:
        repository = model_repository or Settings().model_repository
        self._detector = _session(repository / "detector/1/model.onnx", threads, spinning)
        self._embedder = _session(repository / "embedder/1/model.onnx", threads, spinning)
        self._crops_a_run = crops_a_run
        self._options = PictureOptions()

    def run(self, encoded: bytes) -> Float32Array:
        """Return the embeddings float32 `[n, D]` of the objects in an encoded picture."""
        frame = decode_image(encoded)
        square, fitted = letterbox(frame, DETECTOR_SIDE)
        (rows,) = self._detector.run(None, {"LETTERBOXED": square[None]})
        regions, _ = select_regions(rows[0], fitted, self._options)
        if not len(regions):
            return np.zeros((0, 0), np.float32)
        crops = crop_boxes(frame, regions.boxes_xyxy, CROP_SIDE)
        step = self._crops_a_run or len(crops)
        parts = [
            self._embedder.run(None, {"CROPS": crops[i : i + step]})[0]
            for i in range(0, len(crops), step)
        ]
        return np.concatenate(parts)


def _session(path: Path, threads: int, spinning: bool) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    if not spinning:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
