"""CallSize: estimates the usage of a call from its request body; pure.

The maximum is checked against credit and budgets. The estimate is charged if the provider neither
reports nor counts the tokens.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from app.serialization.large_json import count_parts
from app.serialization.storable import identifier
from app.usage import BYTES_PER_TOKEN, UNKNOWN_MODEL, TokenUsage

LEAST_BYTES_PER_TOKEN = 2
"""A lower bound for text written by people and programs; only random data is denser."""

MOST_IMAGE_TOKENS = 4_800
IMAGE_TOKENS = 1_600
"""Images are scaled down to these sizes: at most, and in most models (width x height / 750)."""

DOCUMENT_TOKENS = 200_000
"""Assumed for a document given by URL or file id: the usual maximum of a prompt."""

LONGEST_OUTPUT = 128_000
SEARCHES = 10
"""The maxima of a call that sets no limits of its own."""

MOST_PARTS = 500_000
"""Commas and opening brackets: more would take long to parse, and no model accepts such a prompt."""


_HERE = {"base64", "text", "content"}


class PromptTooLarge(Exception):
    """A request has too many JSON parts to be parsed."""


@dataclass(frozen=True, slots=True)
class CallSize:
    """The usage of a call before it is made."""

    model: str
    maximum: TokenUsage
    """The most it may use."""
    estimate: TokenUsage
    """The approximate usage of its prompt alone, without an answer."""
    speed: str | None = None
    """The speed that it asks for; None: the usual one."""


@dataclass(slots=True)
class _Attached:
    """The parts of a prompt that are not text."""

    images: int = 0
    documents: int = 0
    encoded_bytes: int = 0

    def add(self, content: Any) -> None:
        for block in _objects(content):
            source = block.get("source")
            source = source if isinstance(source, dict) else {}
            match block.get("type"):
                case "image":
                    self.images += 1
                    self.encoded_bytes += _length(source, "data")
                case "document" if source.get("type") not in _HERE:
                    self.documents += 1
                case "tool_result":
                    self.add(block.get("content"))


def size_of(body: bytes) -> CallSize:
    """The size of the call with this body; raises `PromptTooLarge`."""
    if count_parts(body) > MOST_PARTS:
        raise PromptTooLarge
    try:
        request = from_json(body)
    except ValueError:
        request = None
    # The provider may understand a body that we do not: then assume the maximum.
    request = request if isinstance(request, dict) else {}
    attached = _Attached()
    for message in _objects(request.get("messages")):
        attached.add(message.get("content"))
    model, output = request.get("model"), request.get("max_tokens")
    text_bytes = max(0, len(body) - attached.encoded_bytes)
    return CallSize(
        model=identifier(model) if isinstance(model, str) and model else UNKNOWN_MODEL,
        maximum=_priced(
            text_bytes // LEAST_BYTES_PER_TOKEN
            + attached.images * MOST_IMAGE_TOKENS
            + attached.documents * DOCUMENT_TOKENS,
            body,
            output_tokens=max(0, output) if isinstance(output, int) else LONGEST_OUTPUT,
            searches=_searches(request.get("tools")),
        ),
        estimate=_priced(
            text_bytes // BYTES_PER_TOKEN + attached.images * IMAGE_TOKENS, body, output_tokens=0, searches=0
        ),
        speed=speed if isinstance(speed := request.get("speed"), str) else None,
    )


def text_size(model: str, texts: Iterable[str], *, images: int, output_tokens: int) -> CallSize:
    """The size of a call that is not written as a request yet."""
    text_bytes = sum(len(text.encode("utf-8", "replace")) for text in texts)
    at_most = text_bytes // LEAST_BYTES_PER_TOKEN + images * MOST_IMAGE_TOKENS
    about = text_bytes // BYTES_PER_TOKEN + images * IMAGE_TOKENS
    longest = TokenUsage(input_tokens=at_most, output_tokens=output_tokens)
    return CallSize(model, longest, TokenUsage(input_tokens=about))


def _priced(prompt_tokens: int, body: bytes, *, output_tokens: int, searches: int) -> TokenUsage:
    """Usage by price: tokens that are written to the cache cost more."""
    rest = {"output_tokens": output_tokens, "web_search_requests": searches}
    if b'"cache_control"' not in body:
        return TokenUsage(input_tokens=prompt_tokens, **rest)
    if b'"1h"' not in body:
        return TokenUsage(cache_write_5m_tokens=prompt_tokens, **rest)
    return TokenUsage(cache_write_1h_tokens=prompt_tokens, **rest)


def _searches(tools: Any) -> int:
    searches = 0
    for tool in _objects(tools):
        if str(tool.get("type")).startswith("web_search"):
            most = tool.get("max_uses")
            searches += max(0, most) if isinstance(most, int) else SEARCHES
    return searches


def _objects(value: Any) -> Iterable[Mapping[str, Any]]:
    return (each for each in value if isinstance(each, dict)) if isinstance(value, list) else ()


def _length(source: Mapping[str, Any], name: str) -> int:
    data = source.get(name)
    return len(data) if isinstance(data, str) else 0
