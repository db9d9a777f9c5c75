"""What an image is, from its first bytes; pure.

Models refuse a request with an image whose media type is wrong, that has too many pixels or no header, and
with it every later request of the conversation. So an image is looked at before it becomes part of one.
"""

from collections.abc import Iterator
from typing import NamedTuple

from runtally.tools.content import ImageMediaType

MAX_PIXELS = 8_000
"""The Messages API takes no image that is wider or higher."""

MAX_BYTES = 3_750_000
"""Of one image: the Messages API takes 5 MB of base64."""

_JPEG_SIZES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
"""The JPEG markers of segments with the size of the image."""
_JPEG_ALONE = {0x01, *range(0xD0, 0xD9)}
"""JPEG markers without a segment."""
_MAX_SEGMENTS = 1_000


class ImageHeader(NamedTuple):
    """The kind and the size of an image, in pixels."""

    media_type: ImageMediaType
    width: int
    height: int

    @property
    def fits(self) -> bool:
        """Whether models take an image of this size."""
        return 0 < self.width <= MAX_PIXELS and 0 < self.height <= MAX_PIXELS


def image_header(data: bytes) -> ImageHeader | None:
    """The header of a PNG, JPEG, GIF or WebP image; None for anything else."""
    try:
        return _header(data)
    except IndexError:
        # It ends within its header.
        return None


def _header(data: bytes) -> ImageHeader | None:
    match data[:12]:
        case start if start.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
            return ImageHeader("image/png", _big(data, 16, 4), _big(data, 20, 4))
        case start if start.startswith((b"GIF87a", b"GIF89a")):
            return ImageHeader("image/gif", _little(data, 6, 2), _little(data, 8, 2))
        case start if start.startswith(b"RIFF") and start[8:] == b"WEBP":
            return _webp(data)
        case start if start.startswith(b"\xff\xd8\xff"):
            return next(_jpeg(data), None)
        case _:
            return None


def _webp(data: bytes) -> ImageHeader | None:
    match data[12:16]:
        case b"VP8X":
            return ImageHeader("image/webp", _little(data, 24, 3) + 1, _little(data, 27, 3) + 1)
        case b"VP8L":
            bits = _little(data, 21, 4)
            return ImageHeader("image/webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
        case b"VP8 ":
            return ImageHeader("image/webp", _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF)
        case _:
            return None


def _jpeg(data: bytes) -> Iterator[ImageHeader]:
    at = 2
    for _ in range(_MAX_SEGMENTS):
        if data[at] != 0xFF:  # noqa: PLR2004 - the beginning of a marker
            return
        marker = data[at + 1]
        if marker in _JPEG_SIZES:
            yield ImageHeader("image/jpeg", _big(data, at + 7, 2), _big(data, at + 5, 2))
        if marker == 0xFF:  # noqa: PLR2004 - padding
            at += 1
        else:
            at += 2 if marker in _JPEG_ALONE else 2 + _big(data, at + 2, 2)


def _big(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(_part(data, at, size), "big")


def _little(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(_part(data, at, size), "little")


def _part(data: bytes, at: int, size: int) -> bytes:
    part = data[at : at + size]
    if len(part) < size:
        raise IndexError
    return part
