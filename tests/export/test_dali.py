"""`preprocess/1/dali.py`, run on the CPU, against what the `cpu` profile does: cropseek.vision."""

from __future__ import annotations

import importlib.util
from functools import cache
from inspect import signature
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nvidia.dali._utils.autoserialize import _discover_autoserialize
from PIL import Image

from cropseek.errors import InvalidImage
from cropseek.settings import Settings
from cropseek.triton.profiles import model_configs
from cropseek.types import Int32Array, Uint8Array
from cropseek.vision.decode import decode_image
from cropseek.vision.geometry import LETTERBOX_FILL, letterbox
from tests.builders import encoded, noise, packaged

PREPROCESS = Settings().model_repository / "preprocess" / "1" / "dali.py"
ORIENTATION = 0x0112


@cache
def module() -> ModuleType:
    """Return `dali.py`, imported."""
    spec = importlib.util.spec_from_file_location("preprocess_dali", PREPROCESS)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def built() -> Any:
    """Return the pipeline, ready to run on the CPU, in the executor that Triton runs."""
    pipeline = module().preprocess(
        decoding_device="cpu", device_id=None, prefetch_queue_depth=1, exec_dynamic=False
    )
    pipeline.build()
    return pipeline


@pytest.fixture(scope="module")
def pipeline() -> Any:
    """One for all pictures that can be read."""
    return built()


def run(pipeline: Any, pictures: list[bytes]) -> list[tuple[Uint8Array, Int32Array, Uint8Array]]:
    """Return LETTERBOXED, FITTED and FRAME of each picture."""
    outputs = pipeline.run(IMAGE=[np.frombuffer(picture, np.uint8) for picture in pictures])
    return list(zip(*([np.array(row) for row in rows] for rows in outputs), strict=True))


def assert_alike(pipeline: Any, picture: bytes) -> None:
    """Fail unless DALI and cropseek.vision see the same picture."""
    ((square, fitted, frame),) = run(pipeline, [picture])
    expected_frame = decode_image(picture)
    expected_square, expected_fitted = letterbox(expected_frame, 640)
    assert fitted.dtype == np.int32
    assert fitted.tolist() == expected_fitted.to_array().tolist()
    assert most_apart(frame, expected_frame) <= 1
    assert most_apart(square, expected_square) <= 1
    padding = np.ones((640, 640), bool)
    inner_w, inner_h, left, top = fitted[2:].tolist()
    padding[top : top + inner_h, left : left + inner_w] = False
    assert (square[:, padding] == LETTERBOX_FILL).all()


def most_apart(pixels: Uint8Array, others: Uint8Array) -> int:
    """Return the largest difference in grey levels."""
    assert pixels.dtype == others.dtype == np.uint8
    assert pixels.shape == others.shape
    return int(np.abs(pixels.astype(int) - others).max())


def with_orientation(value: int, kind: str) -> bytes:
    """Return a picture whose metadata says how it is to be turned."""
    exif = Image.Exif()
    exif[ORIENTATION] = value
    return encoded(PHOTO, kind, exif=exif)


def with_black_ink(picture: Image.Image) -> Image.Image:
    """Return a picture as CMYK with all its grey in the black; Pillow's own has none there."""
    inks = 255 - np.asarray(picture)
    black = inks.min(axis=2, keepdims=True)
    return Image.fromarray(np.dstack([inks - black, black]), "CMYK")


PHOTO = Image.open(packaged("skimage", "data", "rocket.jpg")).convert("RGB")
GREY = PHOTO.convert("L")
JPEG = encoded(PHOTO)
READ_ALIKE = {
    "JPEG": JPEG,
    "JPEG, colours at full size": encoded(PHOTO, quality=95, subsampling=0),
    "JPEG, progressive": encoded(PHOTO, progressive=True),
    "JPEG, grey": encoded(GREY),
    "JPEG, CMYK": encoded(with_black_ink(PHOTO)),
    "JPEG, with zeros behind it": JPEG + bytes(1000),
    **{f"JPEG, orientation {n}": with_orientation(n, "JPEG") for n in range(1, 9)},
    "PNG": encoded(PHOTO, "PNG"),
    "PNG, grey": encoded(GREY, "PNG"),
    "PNG, palette": encoded(PHOTO.quantize(64), "PNG"),
    "PNG, one bit": encoded(PHOTO.convert("1"), "PNG"),
    "PNG, opaque alpha": encoded(PHOTO.convert("RGBA"), "PNG"),
    "PNG, orientation 6": with_orientation(6, "PNG"),
    "WebP": encoded(PHOTO, "WEBP"),
    "WebP, orientation 6": with_orientation(6, "WEBP"),
    "BMP": encoded(PHOTO, "BMP"),
    "TIFF": encoded(PHOTO, "TIFF"),
    "TIFF, LZW": encoded(PHOTO, "TIFF", compression="tiff_lzw"),
    "TIFF, two pages": encoded(PHOTO, "TIFF", save_all=True, append_images=[PHOTO.copy()]),
    "WebP, animated": encoded(PHOTO, "WEBP", save_all=True, append_images=[PHOTO.rotate(90)]),
    "APNG": encoded(PHOTO, "PNG", save_all=True, append_images=[PHOTO.rotate(180)]),
    "MPO": encoded(PHOTO, "MPO", save_all=True, append_images=[PHOTO.rotate(180)]),
    "JPEG 2000": encoded(PHOTO, "JPEG2000"),
    "PPM": encoded(PHOTO, "PPM"),
}
DAMAGED = {
    "nothing": b"",
    "no picture": b"a text, not a picture",
    "half a JPEG": JPEG[: len(JPEG) // 2],
    "a JPEG without its end": JPEG[:-2],
    "half a JPEG, and zeros": JPEG[: len(JPEG) // 2] + bytes(len(JPEG) // 2),
    "half a PNG": READ_ALIKE["PNG"][: len(READ_ALIKE["PNG"]) // 2],
    "half a WebP": READ_ALIKE["WebP"][: len(READ_ALIKE["WebP"]) // 2],
}
HALF_A_JP2 = ("JPEG 2000", len(READ_ALIKE["JPEG 2000"]) // 2, len(READ_ALIKE["JPEG 2000"]))
# The rest is where the two part. Whoever changes it changes docs/gpu-evidence.md.
ONLY_OURS = {
    kind: encoded(PHOTO.convert("P") if kind == "GIF" else PHOTO, kind)
    for kind in ("AVIF", "GIF", "QOI", "TGA")
}


@pytest.mark.parametrize("name", READ_ALIKE)
def test_a_picture_is_read_alike(pipeline: Any, name: str) -> None:
    """At most one grey level apart, upright, and fitted to the pixel."""
    assert_alike(pipeline, READ_ALIKE[name])


# A width of 1280 halves, so that odd heights end on a half, which is rounded to even; at 8960 x 91
# arithmetic of 32 bits would miss it.
HALVES = [(1280, 853), (1280, 855), (855, 1280), (3840, 9), (8960, 91)]


@pytest.mark.parametrize("size_wh", [*HALVES, (640, 639), (641, 640), (1, 3000), (1, 1)])
def test_a_size_is_fitted_alike(pipeline: Any, size_wh: tuple[int, int]) -> None:
    """The rounding is the same, and so is where an odd margin's pixel goes."""
    assert_alike(pipeline, encoded(Image.fromarray(noise(*size_wh)), "BMP"))


@settings(deadline=None, derandomize=True)
@given(width=st.integers(1, 1500), height=st.integers(1, 1500), seed=st.integers(0, 9))
def test_every_size_is_fitted_alike(pipeline: Any, width: int, height: int, seed: int) -> None:
    """Noise, in which a shift by a pixel shows."""
    assert_alike(pipeline, encoded(Image.fromarray(noise(width, height, seed)), "BMP"))


def test_a_batch_holds_what_each_picture_gives_alone(pipeline: Any) -> None:
    """Pictures of many sizes and kinds meet in one."""
    pictures = list(READ_ALIKE.values())[:16]
    for row, picture in zip(run(pipeline, pictures), pictures, strict=True):
        (alone,) = run(pipeline, [picture])
        for output in range(3):
            np.testing.assert_array_equal(row[output], alone[output])


@pytest.mark.parametrize("name", DAMAGED)
def test_both_refuse_what_is_damaged(name: str) -> None:
    """Neither fills anything in, in these formats."""
    with pytest.raises(InvalidImage):
        decode_image(DAMAGED[name])
    with pytest.raises(RuntimeError):
        run(built(), [DAMAGED[name]])


def test_a_damaged_picture_fails_its_batch() -> None:
    """The whole pictures beside it have no answer either."""
    with pytest.raises(RuntimeError):
        run(built(), [JPEG, DAMAGED["half a JPEG"]])


@pytest.mark.parametrize(("name", "start", "stop"), [("TIFF, LZW", 20_000, 20_016), HALF_A_JP2])
def test_dali_fills_in_and_says_nothing(pipeline: Any, name: str, start: int, stop: int) -> None:
    """Where the `cpu` profile refuses what was overwritten with zeros."""
    whole = READ_ALIKE[name]
    damaged = whole[:start] + bytes(stop - start) + whole[stop:]
    with pytest.raises(InvalidImage):
        decode_image(damaged)
    ((_, _, frame),) = run(pipeline, [damaged])
    assert most_apart(frame, np.asarray(PHOTO)) > 1


@pytest.mark.parametrize("kind", ONLY_OURS)
def test_dali_does_not_read(kind: str) -> None:
    """Some kinds that the `cpu` profile reads."""
    assert decode_image(ONLY_OURS[kind]).shape == (PHOTO.height, PHOTO.width, 3)
    with pytest.raises(RuntimeError):
        run(built(), [ONLY_OURS[kind]])


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_dali_drops_transparency(pipeline: Any, kind: str) -> None:
    """The colours are kept as they are, where the `cpu` profile lays them on white."""
    transparent = Image.merge("RGBA", (*PHOTO.split(), GREY))
    ((_, _, frame),) = run(pipeline, [encoded(transparent, kind, lossless=True, exact=True)])
    assert most_apart(frame, np.asarray(PHOTO)) == 0


def test_dali_rounds_16_bits(pipeline: Any) -> None:
    """The `cpu` profile cuts the lower eight off: a level in the frame, so two in the square."""
    picture = encoded(Image.fromarray(noise(90, 70).astype(np.uint16)[..., 0] * 251), "PNG")
    ((square, _, frame),) = run(pipeline, [picture])
    assert most_apart(frame, decode_image(picture)) == 1
    assert most_apart(square, letterbox(decode_image(picture), 640)[0]) == 2


def test_triton_finds_the_pipeline() -> None:
    """Its DALI backend serialises the one function that is marked; this is how it looks."""
    (found,) = _discover_autoserialize(module(), visited=[])  # private: the backend calls it too
    assert found is module().preprocess
    assert signature(found).parameters["decoding_device"].default == "mixed"  # on the GPU


def test_what_the_configuration_overrides_is_said_once_more() -> None:
    """DALI wants a batch size and threads to serialise; they are no other than Triton's."""
    config = model_configs("t4")["preprocess"]
    made = module().preprocess(decoding_device="cpu", device_id=None)
    assert made.max_batch_size == config.max_batch_size
    assert config.parameters == {"num_threads": str(made.num_threads)}
