"""Attachments as clients of the AI SDK and of AG-UI post them -> parts of our messages; pure."""

import re
from binascii import a2b_qp
from typing import Literal

from pydantic import ValidationError

from app.errors import Invalid
from app.platform.serialization.mistakes import problem_of
from app.requests.attachments import IMAGE, MAX_TITLE_CHARS, base64_of, is_image, kind_of
from app.requests.messages import Attachment, DocumentPart, ImagePart

_STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


def posted_attachment(
    media_type: str | None,
    *,
    data: str | None = None,
    url: str | None = None,
    type_of_part: Literal["image", "document"] | None = None,
    title: str | None = None,
    field: str,
) -> Attachment:
    """The attachment of a part with data or a URL; raises `Invalid` naming `field`.

    For a data: URL the media type in it counts: the part's own may be only `image/*`. The type of the part
    counts where no media type says more; without either, the bytes do.
    """
    try:
        if data is None:
            named, data, url = _of_url(url or "")
            media_type = named if kind_of(named) else media_type
        fields = {"mediaType": media_type, "data": data, "url": url}
        if _is_image(media_type, type_of_part, data):
            return ImagePart.model_validate({"type": "image", **fields})
        fields["title"] = title[:MAX_TITLE_CHARS] if title else None
        return DocumentPart.model_validate({"type": "document", **fields})
    except ValidationError as error:
        raise Invalid.field(field, problem_of(error.errors()[0])) from error
    except ValueError as error:
        raise Invalid.field(field, str(error)) from error


def _of_url(url: str) -> tuple[str | None, str | None, str | None]:
    """The media type and the base64 in a data: URL, or the URL of another place."""
    if url.startswith("https://"):
        return None, None, url
    head, comma, data = url.partition(",")
    scheme, _, described = head.partition(":")
    if scheme.lower() != "data" or not comma:
        raise ValueError("must be a data: URL, or an https:// URL")
    is_base64 = described.rstrip().lower().endswith(";base64")
    if "%" in data or not is_base64:
        content = _percent_decoded(data)
        data = content.decode("latin-1") if is_base64 else base64_of(content)
    return described, data, None


def _is_image(media_type: str | None, type_of_part: str | None, data: str | None) -> bool:
    kind = kind_of(media_type)
    if kind is not None or type_of_part == IMAGE:
        return kind in (IMAGE, None)
    if data is not None:
        return is_image(data)
    if type_of_part is None:
        raise ValueError("needs the mediaType of an image or of a PDF beside its https:// URL")
    return False


def _percent_decoded(data: str) -> bytes:
    if _STRAY_PERCENT.search(data) is not None:
        raise ValueError("holds a % that is not followed by two hexadecimal digits")
    # The same with another sign, and its decoder is a thousand times as fast as that of URLs.
    return a2b_qp(data.encode().replace(b"=", b"=3D").replace(b"%", b"="))
