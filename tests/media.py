"""A corpus of attachments: labels as clients send them, and contents with what a model gets of them."""

import base64
import os
import struct
from typing import Any, Final, NamedTuple

PIXEL: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PDF: Final = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj<<>>endobj\n%%EOF\n"
_JPEG = b"\xff\xd8\xff\xe1\0\x06abcd\xff\xc0\0\x11\x08\0\x30\0\x40"
_WEBP = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + bytes([99, 0, 0, 49, 0, 0])


class Content(NamedTuple):
    """A content, what it is, and what is sent of it."""

    data: bytes
    kind: str | None
    """Its media type, or `text/plain`; None: nothing that a model takes."""
    sent: bytes = b""


CONTENTS: Final = {
    "png": Content(PIXEL, "image/png", PIXEL),
    "jpeg": Content(_JPEG, "image/jpeg", _JPEG),
    "gif": Content(b"GIF89a\x01\0\x01\0", "image/gif", b"GIF89a\x01\0\x01\0"),
    "webp": Content(_WEBP, "image/webp", _WEBP),
    "pdf": Content(PDF, "application/pdf", PDF),
    "pdf after a mark": Content(b"\xef\xbb\xbf" + PDF, "application/pdf", PDF),
    "text": Content("Grüße".encode(), "text/plain", "Grüße".encode()),
    "text after a mark": Content("Grüße".encode("utf-8-sig"), "text/plain", "Grüße".encode()),
    "little UTF-16": Content(b"\xff\xfe" + "a,ü".encode("utf-16-le"), "text/plain", "a,ü".encode()),
    "big UTF-16": Content(b"\xfe\xff" + "a,ü".encode("utf-16-be"), "text/plain", "a,ü".encode()),
    "svg": Content(b"<svg/>", "text/plain", b"<svg/>"),
    "a begun png": Content(PIXEL[:8], None),
    "zip": Content(b"PK\x03\x04\x14\0\0\0", None),
    "latin-1": Content("Grüße".encode("latin-1"), None),
    "UTF-32": Content("Hi".encode("utf-32"), None),
    "a mark alone": Content(b"\xef\xbb\xbf", None),
    "nothing": Content(b"", None),
}

LABELS: Final = {
    "image": ["image/png", "IMAGE/PNG", "image/jpg", "image/pjpeg", "image/x-png; q=1", "image/svg+xml"],
    "application/pdf": ["application/pdf", "Application/PDF ; version=1.7", "application/x-pdf", "text/pdf"],
    "text/plain": ["text/plain", "text/plain;charset=utf-8", "Text/Markdown", "text/csv", "text/html"],
    # Says nothing: the bytes decide.
    "": [
        "application/json",
        "application/xml",
        "application/octet-stream",
        "application/zip",
        "video/mp2t",
        "",
    ],
}
"""By what each says that the content is."""

PAIRS: Final = [
    (says, label, name) for says, labels in LABELS.items() for label in labels for name in CONTENTS
]


def b64(content: bytes) -> str:
    """Base64."""
    return base64.b64encode(content).decode()


def sent_block(says: str, name: str) -> dict[str, Any] | None:
    """The content block that a model gets; None if the attachment is refused."""
    content = CONTENTS[name]
    kind = content.kind or ""
    if not kind or (says or kind).partition("/")[0] != kind.partition("/")[0]:
        return None
    if kind == "text/plain":
        source = {"type": "text", "media_type": kind, "data": content.sent.decode()}
        return {"type": "document", "source": source}
    source = {"type": "base64", "media_type": kind, "data": b64(content.sent)}
    return {"type": "image" if kind.startswith("image/") else "document", "source": source}


def large_image(size: int) -> str:
    """Base64 of so many bytes that begin as an image, and that nothing compresses."""
    header = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 1, 1)
    return b64(header + os.urandom(size - len(header)))
