"""Frames of a video by presentation time, upright. The only module that knows PyAV.

Why a frame is never repeated: a slide show's picture stays for seconds, and indexing it once a
sample would fill a collection with copies. So a sample is the first frame at or after each tick,
and ticks without a new frame give nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.sidedata.sidedata import SideData
from av.video.stream import VideoStream

from cropseek.errors import InvalidInput
from cropseek.types import Uint8Array

VIDEO_SUFFIXES = frozenset(
    ".3gp .asf .avi .flv .m2ts .m4v .mkv .mov .mp4 .mpeg .mpg .mts .ogv .ts .webm .wmv".split()
)
_PICTURE_BRANDS = (b"avif", b"avis", b"heic", b"heix", b"heif", b"mif1", b"msf1")
_TICK_TOLERANCE_S = Fraction(1, 1000)  # containers such as Matroska round times to milliseconds


def is_video(path: Path) -> bool:
    """Return whether a file is a video: by its first bytes, else by its name."""
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except OSError:
        head = b""
    return _starts_as_video(head) or path.suffix.lower() in VIDEO_SUFFIXES


def _starts_as_video(head: bytes) -> bool:
    if head[4:8] == b"ftyp":
        return head[8:12] not in _PICTURE_BRANDS
    matroska, flv, avi = b"\x1a\x45\xdf\xa3", b"FLV\x01", b"AVI "
    return head.startswith((matroska, flv)) or (head[:4] == b"RIFF" and head[8:12] == avi)


def sample_frames(path: Path, fps: float) -> Iterator[tuple[float, Uint8Array]]:
    """Yield `(time_s, image_rgb)` of the first frame at or after each 1/fps second.

    `time_s` counts from the video's first frame; `image_rgb` is uint8 `[h, w, 3]`, turned and
    mirrored as a player shows it, with square pixels. Raises `InvalidInput` that names the file;
    frames before the damage have been yielded by then.
    """
    if not (fps > 0 and math.isfinite(fps)):
        raise InvalidInput(f"fps: expected a number above 0, got {fps:g}")
    rate = Fraction(fps).limit_denominator(100_000)
    at: Fraction | None = None
    try:
        with av.open(str(path)) as container:
            stream = container.streams.best("video")
            if not isinstance(stream, VideoStream):
                raise InvalidInput(f"{path}: expected a video, got a file without pictures in it")
            stream.thread_type = "AUTO"
            due = Fraction(0)
            for at, frame in _timed(container.decode(stream), stream.average_rate):
                if at + _TICK_TOLERANCE_S >= due:
                    yield float(at), _upright_rgb(frame, stream.sample_aspect_ratio)
                    due = (math.floor((at + _TICK_TOLERANCE_S) * rate) + 1) / rate
    except av.FFmpegError as error:
        raise InvalidInput(_damaged(path, at, str(error.strerror))) from None
    if at is None:
        raise InvalidInput(f"{path}: expected a video, got one without any frame")


def _damaged(path: Path, at: Fraction | None, why: str) -> str:
    if at is None:
        return f"{path}: cannot be read as a video: {why}"
    return f"{path}: damaged after {float(at):.2f} s, frames up to there were read: {why}"


def _timed(
    frames: Iterator[av.VideoFrame], average_rate: Fraction | None
) -> Iterator[tuple[Fraction, av.VideoFrame]]:
    """Yield each frame with its time since the first; frames without one follow the rate."""
    interval = 1 / average_rate if average_rate else Fraction(1, 25)
    start: Fraction | None = None
    at = -interval
    for frame in frames:
        ticks = frame.pts if frame.pts is not None else frame.dts
        if ticks is None or frame.time_base is None:
            at += interval
        else:
            time = ticks * Fraction(frame.time_base)
            start = time if start is None else start
            at = time - start
        yield at, frame


def _upright_rgb(frame: av.VideoFrame, pixel_aspect: Fraction | None) -> Uint8Array:
    width = round(frame.width * pixel_aspect) if pixel_aspect else frame.width
    pixels = frame.to_ndarray(format="rgb24", width=max(width, 1), height=frame.height)
    return np.ascontiguousarray(_displayed(np.asarray(pixels, np.uint8), _display_matrix(frame)))


def _display_matrix(frame: av.VideoFrame) -> tuple[int, int, int, int]:
    """Return `a, b, c, d`, the signs of the frame's matrix: a stored (x, y) is shown at
    (a x + c y, b x + d y). Other angles than quarter turns go to the nearest of those.
    """
    raw = frame.side_data.get("DISPLAYMATRIX")
    if not isinstance(raw, SideData):
        return 1, 0, 0, 1
    a, b, _, c, d = np.frombuffer(bytes(raw), np.int32)[:5].tolist()
    if abs(a) + abs(d) >= abs(b) + abs(c):
        return (-1 if a < 0 else 1), 0, 0, (-1 if d < 0 else 1)
    return 0, (-1 if b < 0 else 1), (-1 if c < 0 else 1), 0


def _displayed(image: Uint8Array, matrix: tuple[int, int, int, int]) -> Uint8Array:
    a, b, c, d = matrix
    if b:  # rows become columns
        image, a, d = image.swapaxes(0, 1), c, b
    return image[:: (-1 if d < 0 else 1), :: (-1 if a < 0 else 1)]
