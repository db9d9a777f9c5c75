"""The result of an external MCP server -> content for the model, within limits; pure."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pybase64
from mcp import types

from app.requests.images import MAX_BYTES, image_header
from app.storable import storable
from app.tools.mcp.spec import ContentLimits
from app.tools.mcp.text import cut_to, one_line
from runtally.tools.content import ToolContent, ToolImage, ToolText

MAX_IMAGES = 20
"""Of one result."""
_MAX_NAME_CHARS = 300
_BASE64_CHARS, _BASE64_BYTES = 4, 3
_BASE64 = re.compile(r"[A-Za-z0-9+/]{16,}+={0,2}")
"""Not words: there are many, and each would take time."""


def model_content(result: types.CallToolResult, limits: ContentLimits) -> tuple[ToolContent, ...]:
    """The result for the model.

    What the model cannot take becomes a note with its kind and size. What exceeds the limits is left out,
    and a note at the end contains how much.
    """
    builder = _Builder(limits)
    for block in result.content:
        builder.add(block)
    if (text := _structured_text(result)) is not None:
        builder.add_text(text)
    return builder.content()


def error_content(result: types.CallToolResult, limits: ContentLimits) -> str:
    """The text of a result that is an error: the Messages API takes nothing else in one."""
    builder = _Builder(limits, takes_images=False)
    for block in result.content:
        builder.add(block)
    return "\n\n".join(each.text for each in builder.content() if isinstance(each, ToolText))


def _structured_text(result: types.CallToolResult) -> str | None:
    """The structured content as text, unless the result has a text, or it repeats an image or a file."""
    if result.structured_content is None:
        return None
    if any(isinstance(block, types.TextContent) and block.text.strip() for block in result.content):
        return None
    data = {data for block in result.content if (data := _data_of(block))}
    if data and any(not data.isdisjoint(_data_in(text)) for text in _strings_of(result.structured_content)):
        return None
    return json.dumps(result.structured_content, ensure_ascii=False)


def _strings_of(value: Any) -> Iterator[str]:
    """The strings in a JSON value, without the names of fields."""
    rest = [value]
    while rest:
        match rest.pop():
            case str() as text:
                yield text
            case dict() as fields:
                rest += fields.values()
            case list() as items:
                rest += items


def _data_in(text: str) -> Iterator[str]:
    """What may be the data of an image or a file: the text, and what is encoded in it, as in a data URL."""
    yield text
    for encoded in _BASE64.finditer(text):
        yield encoded[0]


def _data_of(block: types.ContentBlock) -> str:
    match block:
        case types.ImageContent() | types.AudioContent():
            return block.data
        case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
            return resource.blob
        case _:
            return ""


@dataclass(slots=True)
class _Builder:
    limits: ContentLimits
    takes_images: bool = True
    _parts: list[ToolContent] = field(default_factory=list)
    _texts: list[str] = field(default_factory=list)
    """Since the last image."""
    _text_bytes: int = 0
    _missing_bytes: int = 0
    _image_bytes: int = 0
    _images: int = 0

    def add(self, block: types.ContentBlock) -> None:
        match block:
            case types.TextContent():
                self.add_text(block.text)
            case types.ImageContent():
                self._add_image(block.data, block.mime_type)
            case types.AudioContent():
                self._add_note(block.mime_type, block.data, "the model takes no audio")
            case types.ResourceLink():
                self.add_text(_link(block))
            case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
                self.add_text(f"{_named(resource)}\n{resource.text}")
            case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
                self._add_blob(resource)

    def add_text(self, text: str) -> None:
        if not text.strip():
            return
        text = storable(text)
        # Two line ends between two texts.
        left = self.limits.text_bytes - self._text_bytes - (2 if self._texts else 0)
        kept = cut_to(text, left)
        if kept:
            self._texts.append(kept)
            self._text_bytes += len(kept.encode()) + (2 if len(self._texts) > 1 else 0)
        if len(kept) < len(text):
            self._missing_bytes += len(text.encode()) - len(kept.encode())
            # What follows would stand at the wrong place.
            self._text_bytes = self.limits.text_bytes

    def _add_blob(self, resource: types.BlobResourceContents) -> None:
        kind = resource.mime_type or "application/octet-stream"
        if kind.startswith("image/"):
            self.add_text(_named(resource))
            self._add_image(resource.blob, kind)
        else:
            self.add_text(_named(resource))
            self._add_note(kind, resource.blob, "the model takes no such file")

    def _add_image(self, data: str, kind: str) -> None:
        image, reason = self._image(data)
        if image is None:
            self._add_note(kind, data, reason)
            return
        self._image_bytes += _decoded_bytes(data)
        self._images += 1
        self._end_text()
        self._parts.append(image)

    def _image(self, data: str) -> tuple[ToolImage | None, str]:
        """The image, or the reason why the model does not get it."""
        if (reason := self._refusal(_decoded_bytes(data))) is not None:
            return None, reason
        try:
            decoded = pybase64.b64decode(data)
        except ValueError:
            return None, "its data is not valid base64"
        header = image_header(decoded)
        if header is None:
            return None, "it is no PNG, JPEG, GIF or WebP image"
        if not header.fits:
            return None, f"it has {header.width} x {header.height} pixels"
        # Written anew: the data may contain line ends.
        return ToolImage(header.media_type, pybase64.b64encode(decoded).decode()), ""

    def _refusal(self, size: int) -> str | None:
        """Why another image of so many bytes is left out; None if it is not."""
        if not self.takes_images:
            return "an error contains no images"
        if size > MAX_BYTES or self._image_bytes + size > self.limits.image_bytes:
            return f"the images of a result may have {min(MAX_BYTES, self.limits.image_bytes)} bytes"
        return f"a result may have {MAX_IMAGES} images" if self._images >= MAX_IMAGES else None

    def _add_note(self, kind: str, data: str, reason: str) -> None:
        kind = one_line(kind, 100)
        self.add_text(f"[{kind}, {_decoded_bytes(data)} bytes: left out, because {reason}]")

    def _end_text(self) -> None:
        if self._texts:
            self._parts.append(ToolText("\n\n".join(self._texts)))
            self._texts = []

    def content(self) -> tuple[ToolContent, ...]:
        """All that was added, with a note about what is missing."""
        if self._missing_bytes:
            self._texts.append(
                f"[The result is truncated: {self._missing_bytes} bytes of text are missing here, because a "
                f"result may have {self.limits.text_bytes} bytes of text. Request less to get the rest.]"
            )
        self._end_text()
        return tuple(self._parts)


def _named(resource: types.TextResourceContents | types.BlobResourceContents) -> str:
    kind = f", {one_line(resource.mime_type, 100)}" if resource.mime_type else ""
    return f"[resource {one_line(str(resource.uri), _MAX_NAME_CHARS)}{kind}]"


def _link(link: types.ResourceLink) -> str:
    kind = f", {one_line(link.mime_type, 100)}" if link.mime_type else ""
    size = f", {link.size} bytes" if link.size is not None else ""
    uri, name = one_line(str(link.uri), _MAX_NAME_CHARS), one_line(link.title or link.name, _MAX_NAME_CHARS)
    described = f"\n{link.description}" if link.description else ""
    return f"[link to the resource {uri}{kind}{size}] {name}{described}"


def _decoded_bytes(data: str) -> int:
    return len(data) // _BASE64_CHARS * _BASE64_BYTES
