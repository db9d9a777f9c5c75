"""What messages may have attached: media types, and checks of contents and URLs; pure.

The checks raise `ValueError` with a text for the client.
"""

import re
from typing import Literal
from urllib.parse import urlsplit

import pybase64

DocumentMediaType = Literal["application/pdf", "text/plain"]

PDF: DocumentMediaType = "application/pdf"
TEXT: DocumentMediaType = "text/plain"

MAX_TITLE_CHARS = 255
MAX_URL_CHARS = 2_048
MAX_TOTAL_BYTES = 22 * 2**20
"""Of all attachments of a request: the provider takes 32 MB in one, in base64 and with the texts."""

PART_CHARS = 64
"""Converting a part of a message is about as much work as reading so many characters."""

_PDF_BEGINS = b"%PDF-"
_URL = re.compile(r"[\x21-\x7e]+")


def decoded(data: str) -> bytes:
    """The bytes of base64."""
    try:
        # Ten times as fast as the standard library; an image may have 20 MB.
        return pybase64.b64decode(data, validate=True)
    except ValueError as error:
        raise ValueError("is not valid base64") from error


def size_of_base64(data: str) -> int:
    """How many bytes valid base64 encodes."""
    return len(data) // 4 * 3 - data.count("=", -2)


def require_content(data: str) -> bytes:
    """The bytes of base64 that encodes something."""
    if not (content := decoded(data)):
        raise ValueError("is empty")
    return content


def require_pdf(data: str) -> None:
    """Check that base64 encodes a PDF, by its first bytes."""
    if not require_content(data).startswith(_PDF_BEGINS):
        raise ValueError("is not a PDF: it does not begin with %PDF-")


def require_text(data: str) -> str:
    """The text that base64 encodes; U+0000 cannot be stored."""
    try:
        text = require_content(data).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError("is not text in UTF-8") from error
    if "\0" in text:
        raise ValueError("is not text: it contains U+0000")
    return text


def require_one_source(
    media_type: str | None, *, data: str | None, url: str | None, text: str | None = None
) -> None:
    """Check that an attachment has one content, and a media type that fits it."""
    given = [name for name, value in (("data", data), ("url", url), ("text", text)) if value is not None]
    if len(given) != 1:
        message = "needs either data or url; a plain text may have text instead"
    elif data is not None and media_type is None:
        message = "needs a mediaType for its data"
    elif text is not None and media_type not in (None, TEXT):
        message = f"has text, so its mediaType must be {TEXT}"
    elif url is not None and media_type == TEXT:
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
