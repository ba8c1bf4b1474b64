"""Decoding: what is no picture, orientation, modes, transparency, damage, limits."""

from __future__ import annotations

import io
import itertools
import struct
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from cropseek.errors import InvalidImage
from cropseek.types import Uint8Array
from cropseek.vision.decode import DecodeLimits, decode_image
from tests.builders import encoded, noise, only_promised, packaged, png_chunk

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)
WHITE = (255, 255, 255)


def three_colours() -> Image.Image:
    """64 x 48, no two of its eight orientations alike: red, green and blue in blocks of 8."""
    image = Image.new("RGB", (64, 48), BLUE)
    image.paste(RED, (0, 0, 32, 24))
    image.paste(GREEN, (32, 0, 64, 24))
    return image


def photo() -> Image.Image:
    """A part of a real photograph, in colour, of an odd size."""
    whole = Image.open(packaged("skimage", "data", "astronaut.png")).convert("RGB")
    return whole.crop((150, 10, 283, 109))


def exif(orientation: int) -> bytes:
    """An EXIF block with an orientation."""
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags.tobytes()


def pixels(data: bytes) -> list[tuple[int, ...]]:
    """The decoded pixels as a flat list."""
    return [tuple(pixel) for pixel in decode_image(data).reshape(-1, 3).tolist()]


def png(width: int, height: int, depth: int, colour: int, rows: bytes, **extra: bytes) -> bytes:
    """A PNG made by hand: `rows` unfiltered, each with its leading 0; `extra` chunks by name."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    chunks = {"IHDR": header, **extra, "IDAT": zlib.compress(rows), "IEND": b""}
    parts = (png_chunk(name.encode(), data) for name, data in chunks.items())
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


# ---- what is no picture -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"", "got 0 bytes", id="empty"),
        pytest.param(b"x", "got 1 bytes of another kind", id="one byte"),
        pytest.param(b"\xff\xd8", "got 2 bytes of another kind", id="only the JPEG magic"),
        pytest.param(
            b"\x89PNG\r\n\x1a\n", "whole PNG, got one that is damaged", id="only the PNG magic"
        ),
        pytest.param(b"<html>denied</html>", r"starting with b'<html>denied", id="an error page"),
        pytest.param(bytes(range(7, 207)), "of another kind", id="junk"),
        pytest.param(
            encoded(Image.new("RGB", (4, 4)), "EPS"), "of another kind", id="PostScript is code"
        ),
        pytest.param(
            encoded(Image.new("RGB", (16, 16)), "ICO"), "of another kind", id="an icon file"
        ),
    ],
)
def test_what_is_no_picture_is_refused(data: bytes, message: str) -> None:
    """Each is the caller's fault, and says what came."""
    with pytest.raises(InvalidImage, match=message) as caught:
        decode_image(data)
    assert str(caught.value).startswith("image: expected ")
    assert caught.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("JPEG", {}),
        ("JPEG", {"progressive": True}),
        ("MPO", {}),
        ("PNG", {}),
        ("WEBP", {}),
        ("WEBP", {"lossless": True}),
        ("GIF", {}),
        ("BMP", {}),
        ("TIFF", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
        ("JPEG2000", {}),
        ("PPM", {}),
        ("AVIF", {}),
    ],
    ids=str,
)
def test_broken_bytes_decode_or_are_invalid(kind: str, options: dict[str, object]) -> None:
    """Nothing else escapes, which would fail the other pictures of the batch.

    Each of the first 400 bytes in turn is 0, then 255.
    """
    good = encoded(Image.fromarray(noise(32, 24)), kind, exif=exif(6), **options)
    refused = 0
    for at, value in itertools.product(range(min(len(good), 400)), (0, 255)):
        broken = good[:at] + bytes([value]) + good[at + 1 :]
        try:
            image = decode_image(broken, DecodeLimits(max_pixels=1_000_000))
        except InvalidImage:
            refused += 1
        else:
            assert image.dtype == np.uint8
            assert image.shape == (*image.shape[:2], 3)
    assert refused


# ---- what comes out -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("PNG", {}),
        ("BMP", {}),
        ("GIF", {}),
        ("TIFF", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
        ("WEBP", {"lossless": True}),
        ("JPEG2000", {}),
        ("PPM", {}),
        ("QOI", {}),
        ("TGA", {}),
    ],
    ids=str,
)
def test_lossless_formats_give_the_pixels(kind: str, options: dict[str, object]) -> None:
    """Red is red and not blue, whatever the file's own order; three rows, two columns."""
    image = np.array([[RED, GREEN], [BLUE, (1, 2, 3)], [(200, 30, 30), WHITE]], np.uint8)
    decoded = decode_image(encoded(Image.fromarray(image), kind, **options))
    np.testing.assert_array_equal(decoded, image)
    assert decoded.dtype == np.uint8
    assert decoded.flags.c_contiguous


@pytest.mark.parametrize("kind", ["JPEG", "MPO", "WEBP", "AVIF"])
def test_lossy_formats_give_nearly_the_pixels(kind: str) -> None:
    """A solid colour stays within a few grey levels in each channel."""
    decoded = decode_image(encoded(Image.new("RGB", (40, 24), (200, 30, 90)), kind))
    assert decoded.shape == (24, 40, 3)
    assert np.abs(decoded.astype(int) - (200, 30, 90)).max() <= 4


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"subsampling": "4:4:4"}, id="4:4:4"),
        pytest.param({"subsampling": "4:2:2"}, id="4:2:2"),
        pytest.param({"subsampling": "4:2:0"}, id="4:2:0"),
        pytest.param({"progressive": True}, id="progressive"),
        pytest.param({"quality": 30}, id="quality 30"),
        pytest.param({"restart_marker_blocks": 2}, id="restart markers"),
    ],
)
def test_a_jpeg_is_what_pillow_makes_of_it(options: dict[str, object]) -> None:
    """OpenCV reads JPEG here, Pillow all else: both are the same decoder."""
    data = encoded(photo(), "JPEG", **options)
    np.testing.assert_array_equal(
        decode_image(data), np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    )


def test_bytes_and_a_vector_of_bytes_are_the_same() -> None:
    """Triton hands over a uint8 tensor."""
    data = encoded(three_colours(), "PNG")
    np.testing.assert_array_equal(decode_image(np.frombuffer(data, np.uint8)), decode_image(data))


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (7, 1), (3, 500)], ids=str)
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_small_and_thin_pictures(kind: str, size: tuple[int, int]) -> None:
    """One pixel is a picture."""
    assert decode_image(encoded(Image.new("RGB", size), kind)).shape == (size[1], size[0], 3)


# ---- orientation --------------------------------------------------------------------------------

# Where the stored top-left pixel is shown, by orientation: Exif 2.32, table of tag 0x0112.
TURNED: dict[int, Callable[[Uint8Array], Uint8Array]] = {
    1: lambda a: a,
    2: np.fliplr,
    3: lambda a: np.rot90(a, 2),
    4: np.flipud,
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: np.rot90(a, 2).transpose(1, 0, 2),
    8: np.rot90,
}


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "MPO", "PNG", "TIFF", "WEBP", "AVIF"])
def test_orientation_is_applied_once(kind: str, orientation: int) -> None:
    """A picture tells how it lies; it comes out as the one that was turned before it was saved."""
    plain = encoded(three_colours(), kind)
    turned = encoded(three_colours(), kind, exif=exif(orientation))
    expected = TURNED[orientation](decode_image(plain))
    np.testing.assert_array_equal(decode_image(turned), expected)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_turned_jpeg_equals_the_upright_png(orientation: int) -> None:
    """Saved lying with the tag of a phone, it is the upright picture again."""
    upright = np.asarray(three_colours())
    lying = next(
        lying
        for lying in (turn(upright) for turn in TURNED.values())
        if np.array_equal(TURNED[orientation](lying), upright)
    )
    data = encoded(Image.fromarray(lying), "JPEG", exif=exif(orientation), subsampling=0)
    decoded = decode_image(data)
    assert decoded.shape == (48, 64, 3)
    assert np.abs(decoded.astype(int) - upright).max() <= 3  # the blocks are JPEG's own
    np.testing.assert_array_equal(decode_image(encoded(Image.fromarray(upright), "PNG")), upright)


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_orientation_of_a_jpeg_that_is_not_rgb(mode: str) -> None:
    """CMYK takes the other decoder."""
    data = encoded(three_colours().convert(mode), "JPEG", exif=exif(6))
    assert decode_image(data).shape == (64, 48, 3)


def _tag(kind: int, count: int, value: bytes) -> bytes:
    """An EXIF block with one entry: the orientation, of some type."""
    entry = struct.pack("<HHI", 0x0112, kind, count) + value
    return b"Exif\0\0II*\0" + struct.pack("<IH", 8, 1) + entry + bytes(4)


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(b"Exif\0\0", id="nothing"),
        pytest.param(b"Exif\0\0" + exif(1), id="header twice"),
        pytest.param(b"Exif\0\0" + bytes(40), id="zeros"),
        pytest.param(b"Exif\0\0" + bytes(range(200, 250)), id="garbage"),
        pytest.param(exif(6)[:18], id="cut"),
        pytest.param(_tag(3, 1, struct.pack("<HH", 0, 0)), id="orientation 0"),
        pytest.param(_tag(3, 1, struct.pack("<HH", 9, 0)), id="orientation 9"),
        pytest.param(_tag(3, 1, struct.pack("<HH", 99, 0)), id="orientation 99"),
        pytest.param(_tag(2, 2, b"6\0\0\0"), id="orientation as text"),
        pytest.param(_tag(5, 1, struct.pack("<I", 4)), id="orientation as a fraction"),
        pytest.param(_tag(77, 1, struct.pack("<HH", 6, 0)), id="an unknown type"),
        pytest.param(_tag(3, 2**31, struct.pack("<I", 8)), id="too many values"),
    ],
)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_broken_metadata_is_no_rotation(kind: str, block: bytes) -> None:
    """The picture is decoded as it lies."""
    np.testing.assert_array_equal(
        decode_image(encoded(three_colours(), kind, exif=block)),
        decode_image(encoded(three_colours(), kind)),
    )


# ---- modes and transparency ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
@pytest.mark.parametrize(
    ("mode", "colour", "expected"),
    [
        ("1", 1, WHITE),
        ("L", 77, (77, 77, 77)),
        ("LA", (77, 255), (77, 77, 77)),
        ("LA", (77, 0), WHITE),
        ("P", 0, (10, 20, 30)),
        ("RGB", (200, 30, 90), (200, 30, 90)),
        ("RGBA", (200, 30, 90, 255), (200, 30, 90)),
        ("RGBA", (255, 0, 255, 0), WHITE),
        ("I;16", 0x1234, (0x12, 0x12, 0x12)),
        ("I;16", 0xFFFF, WHITE),
    ],
    ids=str,
)
def test_every_mode_becomes_rgb(
    kind: str, mode: str, colour: int | tuple[int, ...], expected: tuple[int, int, int]
) -> None:
    """Three channels of 8 bits, transparency on white."""
    image = Image.new(mode, (5, 4), colour)
    if mode == "P":
        image.putpalette([10, 20, 30, *[0] * 9])
    data = encoded(image, kind)
    assert Image.open(io.BytesIO(data)).mode == mode
    assert decode_image(data).shape == (4, 5, 3)
    assert set(pixels(data)) == {expected}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(
            png(2, 1, 8, 3, bytes([0, 0, 1]), PLTE=bytes([255, 0, 255, *GREEN]), tRNS=bytes(1)),
            [WHITE, GREEN],
            id="palette, one transparent",
        ),
        pytest.param(
            png(2, 1, 8, 3, bytes([0, 0, 1]), PLTE=bytes([*RED, *BLUE]), tRNS=bytes([255, 128])),
            [RED, (127, 127, 255)],
            id="palette, an alpha each",
        ),
        pytest.param(encoded(Image.new("P", (1, 1), 3), "GIF", transparency=3), [WHITE], id="GIF"),
        pytest.param(
            png(2, 1, 8, 0, bytes([0, 9, 8]), tRNS=b"\0\x09"),
            [WHITE, (8, 8, 8)],
            id="a transparent grey",
        ),
        pytest.param(
            png(2, 1, 16, 0, bytes([0, 9, 0, 9, 1]), tRNS=b"\x09\x00"),
            [WHITE, (9, 9, 9)],
            id="a transparent grey of 16 bits",
        ),
        pytest.param(
            png(2, 1, 8, 2, bytes([0, 1, 2, 3, 1, 2, 4]), tRNS=b"\0\1\0\2\0\3"),
            [WHITE, (1, 2, 4)],
            id="a transparent colour",
        ),
        pytest.param(
            png(3, 1, 1, 0, bytes([0, 0b10100000]), tRNS=b"\0\0"),
            [WHITE, WHITE, WHITE],
            id="a transparent bit",
        ),
        pytest.param(
            png(2, 1, 16, 4, b"\0" + struct.pack(">4H", 0x1234, 0, 0x1234, 0xFFFF)),
            [WHITE, (0x12, 0x12, 0x12)],
            id="grey and alpha of 16 bits",
        ),
        pytest.param(
            png(1, 1, 16, 2, b"\0" + struct.pack(">3H", 0x1234, 0x5678, 0x9ABC)),
            [(0x12, 0x56, 0x9A)],
            id="colour of 16 bits",
        ),
    ],
)
def test_what_is_transparent_is_white(data: bytes, expected: list[tuple[int, int, int]]) -> None:
    """The colours hidden beneath never show."""
    assert pixels(data) == expected


def test_an_alpha_ramp_lies_on_white() -> None:
    """Each pixel is `colour * alpha + white * (1 - alpha)`."""
    alpha = np.arange(256, dtype=np.uint8)[None]
    ramp = np.stack([np.full_like(alpha, 255), alpha * 0, alpha * 0 + 100, alpha], axis=-1)
    decoded = decode_image(encoded(Image.fromarray(ramp), "PNG"))[0].astype(float)
    share = np.arange(256)[:, None] / 255
    np.testing.assert_allclose(decoded, share * (255, 0, 100) + (1 - share) * 255, atol=1)


@pytest.mark.parametrize(
    ("cmyk", "expected"),
    [((0, 0, 0, 0), WHITE), ((0, 255, 255, 0), RED), ((0, 0, 0, 255), (0, 0, 0))],
    ids=["no ink", "magenta and yellow", "black"],
)
def test_a_cmyk_jpeg_has_its_colours(cmyk: tuple[int, ...], expected: tuple[int, int, int]) -> None:
    """Inks the right way round, although Adobe's files store them inverted."""
    assert set(pixels(encoded(Image.new("CMYK", (16, 16), cmyk), "JPEG"))) == {expected}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"P5 3 1 255\n" + bytes([0, 100, 255]), [0, 100, 255]),
        (b"P5 3 1 65535\n" + struct.pack(">3H", 255, 256, 65535), [0, 1, 255]),
        (b"P2 2 1 65535\n 4660 65535", [0x12, 255]),
        (b"P5 2 1 100\n" + bytes([50, 100]), [128, 255]),
    ],
    ids=["8 bits", "16 bits", "16 bits as text", "up to 100"],
)
def test_a_pgm_has_its_greys(data: bytes, expected: list[int]) -> None:
    """Whatever its largest value."""
    assert pixels(data) == [(grey, grey, grey) for grey in expected]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(encoded(Image.new("I", (4, 4), 9), "TIFF"), id="32-bit integers"),
        pytest.param(encoded(Image.new("F", (4, 4), 0.5), "TIFF"), id="floats"),
        pytest.param(b"Pf\n2 1\n-1.0\n" + struct.pack("<2f", 0.5, 1), id="PFM"),
    ],
)
def test_numbers_of_unknown_range_are_refused(data: bytes) -> None:
    """Clipping them to 255 would index a black or a white picture."""
    with pytest.raises(InvalidImage, match="expected 8 or 16 bits a channel, got 32-bit numbers"):
        decode_image(data)


# ---- animations ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF", "MPO", "AVIF"])
def test_the_first_frame_is_the_picture(kind: str) -> None:
    """Red, then green, then blue: red."""
    red, *others = (Image.new("RGB", (32, 16), colour) for colour in (RED, GREEN, BLUE))
    data = encoded(red, kind, save_all=True, append_images=others)
    assert getattr(Image.open(io.BytesIO(data)), "n_frames", 1) == 3
    assert np.abs(decode_image(data).astype(int) - RED).max() <= 3


def test_the_bytes_count_and_not_a_name() -> None:
    """A GIF is a GIF; there is no name to be misled by."""
    assert pixels(encoded(Image.new("RGB", (2, 1), GREEN), "GIF")) == [GREEN, GREEN]


# ---- damage -------------------------------------------------------------------------------------


def after_first_scan_header(jpeg: bytes) -> int:
    """Where the pixels of a JPEG begin."""
    at = jpeg.index(b"\xff\xda")
    return at + 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")


@pytest.mark.parametrize("filler", [b"", bytes(4096)], ids=["cut", "filled up with zeros"])
@pytest.mark.parametrize(
    "options",
    [{}, {"progressive": True}, {"exif": True}],
    ids=["baseline", "progressive", "with a thumbnail"],
)
@pytest.mark.parametrize("where", ["half", "after the scan header", "last two bytes"])
def test_a_truncated_jpeg_is_refused(where: str, options: dict[str, bool], filler: bytes) -> None:
    """Half-uploaded pictures have grey where the rest was to come: never decode those."""
    if options.pop("exif", False):
        thumbnail = encoded(photo().resize((40, 30)), "JPEG")
        image = encoded(photo(), "JPEG", exif=b"Exif\0\0" + thumbnail)
        pixels_at = after_first_scan_header(image[len(thumbnail) + 100 :]) + len(thumbnail) + 100
    else:
        image = encoded(photo(), "JPEG", **options)
        pixels_at = after_first_scan_header(image)
    at = {
        "half": (pixels_at + len(image)) // 2,
        "after the scan header": pixels_at,
        "last two bytes": len(image) - 2,
    }[where]
    assert decode_image(image).shape == (99, 133, 3)
    with pytest.raises(InvalidImage, match="expected a whole JPEG of 133 x 99, got a damaged one"):
        decode_image(image[:at] + filler)


@pytest.mark.parametrize("mode", ["CMYK", "MPO"])
@pytest.mark.parametrize("filler", [b"", bytes(4096)], ids=["cut", "filled up with zeros"])
def test_a_truncated_jpeg_of_another_kind_is_refused(mode: str, filler: bytes) -> None:
    """Those that Pillow decodes."""
    if mode == "MPO":
        image = encoded(photo(), "MPO", save_all=True, append_images=[photo()])
        image = image[: len(image) // 4]
    else:
        image = encoded(photo().convert(mode), "JPEG")[:-1000]
    with pytest.raises(InvalidImage, match="got a damaged one"):
        decode_image(image + filler)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("PNG", {}),
        ("WEBP", {}),
        ("WEBP", {"lossless": True}),
        ("GIF", {}),
        ("BMP", {}),
        ("TIFF", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
        ("JPEG2000", {}),
        ("PPM", {}),
        ("AVIF", {}),
    ],
    ids=str,
)
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_truncated_picture_is_refused(
    kind: str, options: dict[str, object], share: float
) -> None:
    """In every other format as well."""
    data = encoded(Image.fromarray(noise(133, 99)), kind, **options)
    with pytest.raises(InvalidImage, match="image: expected a"):
        decode_image(data[: int(len(data) * share)])


def test_a_flipped_bit_in_a_png_is_noticed() -> None:
    """Its checksum says so."""
    data = bytearray(encoded(photo(), "PNG"))
    data[len(data) // 2] ^= 1
    with pytest.raises(InvalidImage, match="expected a whole PNG of 133 x 99, got a damaged one"):
        decode_image(bytes(data))


def trailing() -> list[object]:
    """What phones, drones and file systems put after a JPEG's end marker."""
    return [
        pytest.param(bytes(1), id="a zero"),
        pytest.param(bytes(4096), id="4096 zeros"),
        pytest.param(b"\xff" * 64, id="0xff"),
        pytest.param(b"\0\0\0\x18ftypmp42" + noise(40, 40).tobytes(), id="a film"),
        pytest.param(encoded(Image.new("RGB", (8, 8)), "JPEG"), id="another JPEG"),
    ]


@pytest.mark.parametrize("tail", trailing())
@pytest.mark.parametrize("options", [{}, {"progressive": True}], ids=["baseline", "progressive"])
def test_bytes_after_the_end_of_a_jpeg_do_no_harm(options: dict[str, bool], tail: bytes) -> None:
    """The picture is whole."""
    data = encoded(photo(), "JPEG", **options)
    np.testing.assert_array_equal(decode_image(data + tail), decode_image(data))


@pytest.mark.parametrize(
    "inserted",
    [b"\xff" * 5, bytes(3), b"\xff\xe5\x00\x08abcdef"],
    ids=["fill bytes", "junk", "an unknown segment"],
)
def test_odd_but_legal_bytes_in_a_jpeg_header_do_no_harm(inserted: bytes) -> None:
    """Decoders skip them, so must the look for the end."""
    data = encoded(photo(), "JPEG")
    at = data.index(b"\xff\xdb")  # a segment's beginning
    np.testing.assert_array_equal(
        decode_image(data[:at] + inserted + data[at:]), decode_image(data)
    )


def test_of_an_mpo_the_primary_picture_is_read() -> None:
    """A cut among the others does not matter."""
    data = encoded(photo(), "MPO", save_all=True, append_images=[three_colours()] * 2)
    np.testing.assert_array_equal(decode_image(data[:-500]), decode_image(encoded(photo(), "JPEG")))


# ---- limits -------------------------------------------------------------------------------------


def test_the_pixels_are_counted_in_the_header() -> None:
    """The file promises 900 million pixels and holds none: only its header was read."""
    with pytest.raises(
        InvalidImage, match="at most 100000000 pixels, got 30000 x 30000 = 900000000"
    ):
        decode_image(only_promised(30000, 30000))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"])
def test_a_picture_of_exactly_the_limit_is_decoded(kind: str) -> None:
    """And one pixel less is refused."""
    data = encoded(Image.new("RGB", (20, 10)), kind)
    assert decode_image(data, DecodeLimits(max_pixels=200)).shape == (10, 20, 3)
    with pytest.raises(InvalidImage, match="at most 199 pixels, got 20 x 10 = 200"):
        decode_image(data, DecodeLimits(max_pixels=199))


def test_the_limit_is_of_the_picture_that_is_decoded() -> None:
    """An icon of 16 x 16 that holds a PNG of 2000 x 2000 does not get around it."""
    hidden = encoded(Image.new("1", (2000, 2000)), "PNG")
    entry = struct.pack("<4BHHII", 16, 16, 0, 0, 1, 32, len(hidden), 22)
    with pytest.raises(InvalidImage, match="of another kind"):
        decode_image(struct.pack("<3H", 0, 1, 1) + entry + hidden)


def test_too_many_bytes_are_refused_unread() -> None:
    """Whatever they are."""
    limits = DecodeLimits(max_bytes=100)
    with pytest.raises(InvalidImage, match="image: expected at most 100 bytes, got 101"):
        decode_image(bytes(101), limits)
    with pytest.raises(InvalidImage, match="got 100 bytes of another kind"):
        decode_image(bytes(100), limits)


def test_the_limit_is_ours_and_not_pillows() -> None:
    """Pillow warns from 90 megapixels on and refuses 180; this file of 196 is only cut."""
    with pytest.raises(InvalidImage, match="expected a whole PNG of 14000 x 14000, got a damaged"):
        decode_image(only_promised(14000, 14000), DecodeLimits(max_pixels=196_000_000))
