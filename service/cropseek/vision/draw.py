"""Boxes and labels onto a picture."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from cropseek.types import Float32Array, Uint8Array

Rgb = tuple[int, int, int]
PixelBox = tuple[int, int, int, int]
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont

# Told apart on light and dark pictures.
_PALETTE: tuple[Rgb, ...] = (
    (230, 57, 70),
    (29, 131, 255),
    (46, 184, 92),
    (255, 159, 28),
    (155, 93, 229),
    (0, 187, 199),
    (241, 91, 181),
    (160, 196, 0),
    (255, 111, 60),
    (76, 110, 245),
    (0, 150, 110),
    (255, 209, 0),
    (190, 60, 200),
    (120, 170, 255),
    (200, 120, 60),
    (100, 220, 160),
    (255, 140, 150),
)
_BLACK: Rgb = (17, 17, 17)
_WHITE: Rgb = (255, 255, 255)
_SMALLEST_TEXT_PX = 8


def class_color(label: str) -> Rgb:
    """Return a label's colour, the same in every picture and process."""
    return _PALETTE[zlib.crc32(label.encode()) % len(_PALETTE)]


def draw_detections(
    image_rgb: Uint8Array,
    boxes_xyxy: Float32Array,
    labels: Sequence[str],
    scores: Sequence[float],
) -> Uint8Array:
    """Return a copy of uint8 `[h, w, 3]` with `boxes_xyxy` float32 `[n, 4]` and their tags.

    Lines and text follow the picture's size; a tag stays inside the picture, keeps off the tags of
    the boxes before it where it can, and is left out where there is no room for it at all.
    """
    picture = Image.fromarray(image_rgb)
    draw = ImageDraw.Draw(picture)
    line_px = max(1, round(min(picture.size) / 200))
    boxes = [_inside(box, picture.size) for box in np.asarray(boxes_xyxy).tolist()]
    tags: list[_Tag] = []
    for box, label, score in zip(boxes, labels, scores, strict=True):
        text = f"{label} {score:.2f}".strip()
        tags += _placed_tag(text, class_color(label), box, line_px, picture.size, tags)
    for box, label in reversed(list(zip(boxes, labels, strict=True))):  # the first lies on top
        draw.rectangle(box, outline=class_color(label), width=line_px)
    for tag in reversed(tags):
        draw.rectangle(tag.box, fill=tag.color)
        center = ((tag.box[0] + tag.box[2]) / 2, (tag.box[1] + tag.box[3]) / 2)
        draw.text(center, tag.text, font=tag.font, fill=readable_on(tag.color), anchor="mm")
    return np.asarray(picture)


@dataclass(frozen=True)
class _Tag:
    """A text on a filled box of whole pixels, both corners included."""

    text: str
    font: Font
    color: Rgb
    box: PixelBox

    def meets(self, other: PixelBox) -> bool:
        x1, y1, x2, y2 = self.box
        return x1 <= other[2] and other[0] <= x2 and y1 <= other[3] and other[1] <= y2


def _inside(box_xyxy: Sequence[float], size_wh: tuple[int, int]) -> PixelBox:
    """Return the whole pixels of a box, at least one, within the picture."""
    width, height = size_wh
    x1 = min(max(round(box_xyxy[0]), 0), width - 1)
    y1 = min(max(round(box_xyxy[1]), 0), height - 1)
    x2 = min(max(round(box_xyxy[2]) - 1, x1), width - 1)
    y2 = min(max(round(box_xyxy[3]) - 1, y1), height - 1)
    return x1, y1, x2, y2


def _placed_tag(
    text: str, color: Rgb, box: PixelBox, line_px: int, size_wh: tuple[int, int], taken: list[_Tag]
) -> list[_Tag]:
    """Return the tag where it is best placed, or nothing if no readable size of it fits."""
    width, height = size_wh
    for text_px in range(max(11, round(min(size_wh) / 28)), _SMALLEST_TEXT_PX - 1, -1):
        font = ImageFont.load_default(text_px)
        tag_w, tag_h = round(font.getlength(text) + 0.5 * text_px), round(1.3 * text_px)
        if tag_w <= width and tag_h <= height:
            break
    else:
        return []
    left, right = box[0], box[2] + 1 - tag_w
    above, inside, below = box[1] - tag_h, box[1] + line_px, box[3] + 1
    spots = [(left, above), (left, inside), (right, above), (right, inside), (left, below)]
    spots = [(min(max(x, 0), width - tag_w), y) for x, y in spots if 0 <= y <= height - tag_h]
    spots = spots or [(min(max(left, 0), width - tag_w), height - tag_h)]
    choices = [_Tag(text, font, color, (x, y, x + tag_w - 1, y + tag_h - 1)) for x, y in spots]
    free = [tag for tag in choices if not any(other.meets(tag.box) for other in taken)]
    return [(free or choices)[0]]


def readable_on(color: Rgb) -> Rgb:
    """Return black or white, whichever stands out more (ITU-R BT.601 luma)."""
    red, green, blue = color
    return _BLACK if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else _WHITE
