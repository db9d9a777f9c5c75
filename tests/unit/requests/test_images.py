"""What images are, from headers that other programs have written."""

import struct

import pytest

from app.requests.images import image_header

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 640, 480)
GIF = b"GIF89a" + struct.pack("<HH", 30, 20)
EXIF = b"\xff\xe1\x00\x06abcd"
JPEG = b"\xff\xd8" + EXIF + b"\xff\xff\xc2\x00\x11\x08" + struct.pack(">HH", 48, 64)
LOSSLESS = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0/" + struct.pack("<I", 99 | 49 << 14)
LOSSY = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 100 | 1 << 14, 50)
EXTENDED = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + bytes([99, 0, 0, 49, 0, 0])


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (PNG, ("image/png", 640, 480)),
        (GIF, ("image/gif", 30, 20)),
        (JPEG, ("image/jpeg", 64, 48)),
        (LOSSLESS, ("image/webp", 100, 50)),
        (LOSSY, ("image/webp", 100, 50)),
        (EXTENDED, ("image/webp", 100, 50)),
    ],
)
def test_the_kind_and_size_of_an_image(data: bytes, expected: tuple[str, int, int]) -> None:
    assert image_header(data) == expected
    # Every beginning of it is either enough or no image, and no error.
    assert {image_header(data[:length]) for length in range(len(data))} <= {None, expected}


@pytest.mark.parametrize("data", [b"", b"<svg/>", b"BM", b"\xff\xd8\xff\xd9", b"\xff\xd8\xff" + b"\xd0" * 99])
def test_anything_else_is_no_image(data: bytes) -> None:
    assert image_header(data) is None


@pytest.mark.parametrize(("width", "fits"), [(0, False), (1, True), (8000, True), (8001, False)])
def test_models_take_no_image_with_too_many_pixels(width: int, *, fits: bool) -> None:
    header = image_header(b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, 1))
    assert header is not None
    assert header.fits is fits
