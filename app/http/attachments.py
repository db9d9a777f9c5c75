"""Attachments as clients of the AI SDK and of AG-UI post them -> parts of our messages; pure."""

import base64
import binascii
import re
from typing import Any, Final, TypeAlias, get_args

from pydantic import ValidationError

from app.errors import Invalid
from app.platform.serialization.mistakes import problem_of
from app.requests.attachments import MAX_TITLE_CHARS, PDF, TEXT
from app.requests.messages import Attachment, DocumentPart, ImagePart
from runtally.tools.content import ImageMediaType

_DATA_URL_HEAD = re.compile(
    r"data:(?P<type>[\w.+-]+/[\w.+-]+)(?:;[\w.+-]+=[^;,]*)*(?P<base64>;base64)?", re.ASCII | re.IGNORECASE
)
_MAX_HEAD_CHARS: Final = 1_000
"""Up to the comma; matching millions of parameters takes seconds and a gigabyte."""
_STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_IMAGES: Final = get_args(ImageMediaType)
_KNOWN: Final = f"{', '.join(_IMAGES)}, {PDF} or text/*"

Fields: TypeAlias = dict[str, Any]
"""The fields of an attachment in one of our requests, by their JSON names."""


def data_fields(media_type: str, data: str, *, title: str | None = None) -> Fields | None:
    """The part of base64 data; None if no model takes this media type."""
    kind = media_type.partition(";")[0].strip().lower()
    if kind in _IMAGES:
        return {"type": "image", "mediaType": kind, "data": data}
    if kind == PDF or kind.startswith("text/"):
        media_type = PDF if kind == PDF else TEXT
        return {"type": "document", "mediaType": media_type, "data": data, **_title(title)}
    return None


def url_fields(media_type: str | None, url: str, *, title: str | None = None) -> Fields | None:
    """The part of a URL that the provider opens; None if it takes no such media type by URL."""
    kind = (media_type or "").partition(";")[0].strip().lower()
    if kind in (*_IMAGES, "image", "image/*"):
        return {"type": "image", "url": url}
    if kind == PDF:
        return {"type": "document", "mediaType": PDF, "url": url, **_title(title)}
    return None


def ui_file(url: str, media_type: str | None, filename: str | None, *, field: str) -> Attachment:
    """The attachment of a `file` part of a `UIMessage`; raises `Invalid` naming `field`.

    For a data: URL the media type in it counts: the part's own may be only `image/*`.
    """
    head, comma, data = url.partition(",")
    named = _DATA_URL_HEAD.fullmatch(head) if comma and len(head) <= _MAX_HEAD_CHARS else None
    if named is not None:
        data = data if named["base64"] else _percent_decoded(data, field=field)
        fields = data_fields(named["type"], data, title=filename)
    elif url.startswith("https://"):
        fields = url_fields(media_type, url, title=filename)
    else:
        raise Invalid.field(field, "must be a data: URL in base64, or an https:// URL")
    if fields is None:
        message = f"must hold one of {_KNOWN}" if named else f"must be one of {', '.join(_IMAGES)} or {PDF}"
        raise Invalid.field(field, message)
    try:
        return (ImagePart if fields["type"] == "image" else DocumentPart).model_validate(fields)
    except ValidationError as error:
        raise Invalid.field(field, problem_of(error.errors()[0])) from error


def _title(title: str | None) -> Fields:
    return {"title": title[:MAX_TITLE_CHARS]} if title else {}


def _percent_decoded(data: str, *, field: str) -> str:
    """Percent-encoded data in base64."""
    if _STRAY_PERCENT.search(data) is not None:
        raise Invalid.field(field, "holds a % that is not followed by two hexadecimal digits")
    # The same with another sign, and its decoder is a thousand times as fast as that of URLs.
    quoted = data.encode().replace(b"=", b"=3D").replace(b"%", b"=")
    return base64.b64encode(binascii.a2b_qp(quoted)).decode()
