"""Does a changed picture find its original? A folder of photos, with a contact sheet of misses.

    python -m benchmarks.lookalikes --images DIR --json OUT --sheet MISSES.png

Every photo is indexed. Then each comes back as it was, re-encoded at quality 70, at half size, and
stored rotated with the EXIF flag. Of the detections that overlap an original one (IoU >= 0.7), how
many return that very item first? For the unchanged bytes also: is the similarity > 0.999?
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from benchmarks.machine import description
from cropseek.client import Client
from cropseek.client.results import Detection, IndexItem
from cropseek.rpc.server import running_server
from cropseek.settings import Settings
from cropseek.types import Uint8Array
from cropseek.vision.crop import crop_boxes
from cropseek.vision.decode import decode_image

OVERLAP = 0.7
TILE = 160
Change = Callable[[bytes], bytes]
Float64Array = NDArray[np.float64]


@dataclass(frozen=True)
class Miss:
    """A detection whose own item did not come first: its crop, its item's, and what came first."""

    what: str
    query: Uint8Array
    own: Uint8Array
    first: Uint8Array


def main() -> None:
    """Measure, print, write the JSON and the contact sheet."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--sheet", type=Path, required=True)
    arguments = parser.parse_args()
    photos = {path.name: path.read_bytes() for path in sorted(arguments.images.glob("*.jpg"))}
    changes: dict[str, tuple[Change, float]] = {
        "same bytes": (lambda photo: photo, 1.0),
        "quality 70": (_recompressed, 1.0),
        "half size": (_halved, 0.5),
        "rotated by EXIF": (_stored_rotated, 1.0),
    }
    figures, misses = {}, []
    with (
        tempfile.TemporaryDirectory() as data_dir,
        running_server(Settings(data_dir=Path(data_dir))) as server,
        Client(server.target) as client,
    ):
        for outcome in client.index_images(IndexItem(b, source=n) for n, b in photos.items()):
            assert outcome.error is None, outcome
        originals = {name: client.search(photo).detections for name, photo in photos.items()}
        for what, (change, scale) in changes.items():
            figures[what], missed = _measure(client, photos, originals, what, change, scale)
            misses += missed
            print(f"{what}: {figures[what]}")
    _write_sheet(arguments.sheet, misses)
    result = {"machine": description(), "pictures": len(photos), "figures": figures}
    arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _measure(
    client: Client,
    photos: dict[str, bytes],
    originals: dict[str, tuple[Detection, ...]],
    what: str,
    change: Change,
    scale: float,
) -> tuple[dict[str, float], list[Miss]]:
    overlapping = hits = 0
    lowest = 1.0
    misses = []
    for name, photo in photos.items():
        changed = change(photo)
        for detection in client.search(changed).detections:
            own = _overlapping(detection, originals[name], scale)
            if own is None:
                continue
            overlapping += 1
            first = detection.neighbors[0]
            if first.item_id == own.neighbors[0].item_id:
                hits += 1
                lowest = min(lowest, first.similarity)
            else:
                misses.append(
                    Miss(
                        f"{what} {detection.label}",
                        _tile(changed, detection.box_xyxy),
                        _tile(photo, own.box_xyxy),
                        _tile(photos[first.source], first.box_xyxy),
                    )
                )
    figures = {
        "overlapping": overlapping,
        "own_item_first": hits,
        "share": round(hits / overlapping, 4),
        "lowest_similarity_of_hits": round(lowest, 5),
    }
    return figures, misses


def _overlapping(
    detection: Detection, originals: tuple[Detection, ...], scale: float
) -> Detection | None:
    box = np.array(detection.box_xyxy) / scale
    best = max(originals, key=lambda o: _iou(box, np.array(o.box_xyxy)), default=None)
    return best if best is not None and _iou(box, np.array(best.box_xyxy)) >= OVERLAP else None


def _iou(one: Float64Array, other: Float64Array) -> float:
    inner = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    if (inner <= 0).any():
        return 0.0
    areas = np.prod(one[2:] - one[:2]) + np.prod(other[2:] - other[:2])
    return float(np.prod(inner) / (areas - np.prod(inner)))


def _tile(photo: bytes, box_xyxy: tuple[float, ...]) -> Uint8Array:
    crops = crop_boxes(decode_image(photo), np.array([box_xyxy], np.float32), TILE)
    return np.ascontiguousarray(crops[0].transpose(1, 2, 0))


def _write_sheet(path: Path, misses: list[Miss]) -> None:
    """Draw one row a miss: query, its own item, what came first."""
    rows = [np.hstack([miss.query, miss.own, miss.first]) for miss in misses]
    sheet = np.full((max(1, len(rows)) * (TILE + 16), 3 * TILE, 3), 255, np.uint8)
    for number, (row, miss) in enumerate(zip(rows, misses, strict=True)):
        top = number * (TILE + 16)
        sheet[top + 16 : top + 16 + TILE] = row
        text = f"{miss.what}: query, own, first"
        cv2.putText(sheet, text, (4, top + 12), cv2.FONT_HERSHEY_SIMPLEX, 0.4, (0, 0, 0), 1)
    Image.fromarray(sheet).save(path)


def _pillow(photo: bytes) -> Image.Image:
    return Image.fromarray(decode_image(photo))


def _jpeg(picture: Image.Image, quality: int, exif: Image.Exif | None = None) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality, exif=exif or Image.Exif())
    return buffer.getvalue()


def _recompressed(photo: bytes) -> bytes:
    return _jpeg(_pillow(photo), 70)


def _halved(photo: bytes) -> bytes:
    picture = _pillow(photo)
    half = (picture.width // 2, picture.height // 2)
    return _jpeg(picture.resize(half, Image.Resampling.LANCZOS), 95)


def _stored_rotated(photo: bytes) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return _jpeg(_pillow(photo).transpose(Image.Transpose.ROTATE_90), 95, exif)


if __name__ == "__main__":
    main()
