"""Files that commands write: vectors and annotated pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from cropseek.cli.inputs import Picture
from cropseek.client.pictures import read_picture
from cropseek.client.results import DetectResult, EmbedResult
from cropseek.errors import InvalidInput
from cropseek.text import path_text
from cropseek.vision.decode import DecodeLimits, decode_image
from cropseek.vision.draw import draw_detections

_ANY_SIZE = 2**40
_NO_LIMITS = DecodeLimits(_ANY_SIZE, _ANY_SIZE)  # the server has read the picture already


class VectorFile:
    """Gathers embeddings and writes them as one .npz."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pictures: list[Picture] = []
        self._results: list[EmbedResult] = []

    @property
    def count(self) -> int:
        """How many vectors."""
        return sum(len(result.detections) for result in self._results)

    @property
    def dim(self) -> int:
        """How long each is; 0 without any."""
        return max((result.embeddings.shape[1] for result in self._results), default=0)

    def add(self, picture: Picture, result: EmbedResult) -> None:
        """Take in one picture's vectors."""
        self._pictures.append(picture)
        self._results.append(result)

    def write(self) -> None:
        """Write the file; raises `InvalidInput` if that is not possible."""
        pairs = zip(self._pictures, self._results, strict=True)
        found = [(picture, d) for picture, result in pairs for d in result.detections]
        times = [np.nan if p.time_s is None else p.time_s for p, _ in found]
        embeddings = [np.empty((0, self.dim), np.float32)]
        embeddings += [r.embeddings for r in self._results if len(r.embeddings)]
        arrays = {
            "embeddings": np.concatenate(embeddings),
            "boxes_xyxy": np.array([d.box_xyxy for _, d in found], np.float32).reshape(-1, 4),
            "scores": np.array([d.score for _, d in found], np.float32),
            "labels": np.array([d.label for _, d in found], np.str_),
            "images": np.array([p.name for p, _ in found], np.str_),
            "times_s": np.array(times, np.float64),
        }

        def save() -> None:
            with self.path.open("wb") as file:
                np.savez(file, **arrays)

        _written(self.path, save)


def write_drawn(picture: Picture, result: DetectResult, output: Path) -> Path:
    """Write a copy of a picture with its objects drawn on it, and return where.

    Raises `InvalidInput` if that is not possible.
    """
    image_rgb = decode_image(read_picture(picture.image, _ANY_SIZE), _NO_LIMITS)
    boxes_xyxy = np.array([d.box_xyxy for d in result.detections], np.float32).reshape(-1, 4)
    drawn = draw_detections(
        image_rgb,
        boxes_xyxy,
        [d.label for d in result.detections],
        [d.score for d in result.detections],
    )
    _written(output, lambda: Image.fromarray(drawn).save(output, quality=92))
    return output


def _written(path: Path, write: Callable[[], None]) -> None:
    try:
        write()
    except OSError as error:
        why = error.strerror or str(error)
        raise InvalidInput(f"cannot write {path_text(path)}: {why}") from None
    except ValueError as error:
        raise InvalidInput(f"cannot write {path_text(path)}: {error}") from None
