"""What messages may have attached, for all wires: kinds, contents and URLs; pure.

What an attachment is, its bytes say: a media type only selects what they are checked as, and a wrong one of
an image is corrected. The checks raise `ValueError` with a text for the client.
"""

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from typing import Final, Literal
from urllib.parse import urlsplit

import pybase64

from app.requests.images import image_header
from runtally.tools.content import ImageMediaType

Kind = Literal["image", "application/pdf", "text/plain"]

IMAGE: Final = "image"
PDF: Final = "application/pdf"
TEXT: Final = "text/plain"

MAX_TITLE_CHARS = 255
MAX_URL_CHARS = 2_048
MAX_TOTAL_BYTES = 22 * 2**20
"""Of all attachments of a request: the provider takes 32 MB in one, in base64 and with the texts."""

PART_CHARS = 64
"""Converting a part of a message is about as much work as reading so many characters."""

_PDF_NAMES = {PDF, "application/x-pdf", "application/acrobat", "text/pdf", "text/x-pdf"}
_PDF_BEGINS = b"%PDF-"
_PDF_BEGINS_WITHIN = 1_024
"""Readers of PDFs look for the header in so many bytes; some programs write others before it."""
_WHITE_SPACE = b" \t\r\n"
_HEADER_CHARS = 4_096
_URL = re.compile(r"[\x21-\x7e]+")


def decoded(data: str) -> bytes:
    """The bytes of base64: also in lines, in the alphabet for URLs, or without its padding."""
    try:
        # Ten times as fast as the standard library; an image may have 20 MB.
        return pybase64.b64decode(data, validate=True)
    except ValueError:
        return _leniently_decoded(data.encode("ascii", "replace").translate(None, _WHITE_SPACE).rstrip(b"="))


def _leniently_decoded(data: bytes) -> bytes:
    is_for_urls = b"-" in data or b"_" in data
    if is_for_urls and (b"+" in data or b"/" in data):
        raise ValueError("is not valid base64: it mixes two alphabets")
    try:
        padded = data + b"=" * (-len(data) % 4)
        return pybase64.b64decode(padded, b"-_" if is_for_urls else None, validate=True)
    except ValueError as error:
        raise ValueError("is not valid base64") from error


def base64_of(content: bytes) -> str:
    """Base64 as the provider takes it."""
    return pybase64.b64encode_as_string(content)


def standard_base64(data: str) -> str:
    """The same bytes in base64 as the provider takes it."""
    return base64_of(decoded(data))


def size_of_base64(data: str) -> int:
    """How many bytes standard base64 encodes."""
    return len(data) // 4 * 3 - data.count("=", -2)


def kind_of(media_type: str | None) -> Kind | None:
    """What something of this media type is checked as; None: as what its bytes are.

    There is no list of texts: JSON, programs and tables have many names, and browsers often know none.
    """
    name = (media_type or "").partition(";")[0].strip().lower()
    if name in _PDF_NAMES:
        return PDF
    match name.partition("/")[0]:
        case "image":
            return IMAGE
        case "text":
            return TEXT
        case _:
            return None


def is_image(data: str) -> bool:
    """Whether base64 encodes an image."""
    return image_header(decoded(data)) is not None


def image_type(data: str) -> ImageMediaType | None:
    """The media type of what `image_data` returned, from its bytes."""
    # Enough of nearly all.
    header = image_header(decoded(data[:_HEADER_CHARS])) or image_header(decoded(data))
    return None if header is None else header.media_type


def image_data(data: str) -> str:
    """An image in standard base64."""
    if image_header(content := _content(data)) is None:
        raise ValueError("is not an image: it is none of image/png, image/jpeg, image/gif and image/webp")
    return base64_of(content)


def document_data(data: str, kind: Kind | None) -> str:
    """A document in standard base64: a PDF from its header on, a text in UTF-8.

    `kind`: what it has to be; None: a PDF if it begins as one, otherwise a text.
    """
    content = _content(data)
    if kind == PDF or (
        kind is None and content[:_PDF_BEGINS_WITHIN].lstrip(BOM_UTF8 + _WHITE_SPACE).startswith(_PDF_BEGINS)
    ):
        return base64_of(_pdf(content))
    return base64_of(_text(content, expected="text in UTF-8" if kind else "a PDF or text in UTF-8"))


def document_text(data: str, kind: Kind | None) -> str | None:
    """The text that `document_data` returned; None if it is a PDF."""
    if kind == PDF:
        return None
    content = decoded(data)
    return None if kind is None and content.startswith(_PDF_BEGINS) else content.decode()


def _content(data: str) -> bytes:
    if not (content := decoded(data)):
        raise ValueError("is empty")
    return content


def _pdf(content: bytes) -> bytes:
    begin = content.find(_PDF_BEGINS, 0, _PDF_BEGINS_WITHIN)
    if begin < 0:
        raise ValueError(f"is not a PDF: there is no %PDF- in its first {_PDF_BEGINS_WITHIN} bytes")
    return content[begin:]


def _text(content: bytes, *, expected: str) -> bytes:
    """A text in UTF-8, also of one in UTF-16 with its mark: spreadsheets write such tables."""
    is_utf16 = content.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
    content = content.removeprefix(BOM_UTF8)
    try:
        text = content.decode("utf-16" if is_utf16 else "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"is not {expected}") from error
    if not text:
        raise ValueError("is empty")
    if "\0" in text:
        # It cannot be stored.
        raise ValueError(f"is not {expected}: it contains U+0000")
    return text.encode() if is_utf16 else content


def require_one_source(
    kind: Kind | None, *, data: str | None, url: str | None, text: str | None = None
) -> None:
    """Check that an attachment has one content, and that its kind fits it."""
    given = [name for name, value in (("data", data), ("url", url), ("text", text)) if value is not None]
    if len(given) != 1:
        message = "needs either data or url; a plain text may have text instead"
    elif text is not None and kind == PDF:
        message = "has text, so its mediaType must be that of a text"
    elif url is not None and kind == TEXT:
        message = "cannot be a plain text by URL: only images and PDFs can be given by URL"
    else:
        return
    raise ValueError(message)


def require_url(url: str) -> str:
    """The URL if it is one that a provider may be sent to open: https, without a user or a password."""
    if len(url) > MAX_URL_CHARS:
        raise ValueError(f"must not be longer than {MAX_URL_CHARS} characters")
    try:
        parts = urlsplit(url)
        usable = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or _URL.fullmatch(url) is None or "\\" in url:
        raise ValueError("must be an https:// URL")
    if "@" in parts.netloc:
        raise ValueError("must not contain a user or a password")
    return url
