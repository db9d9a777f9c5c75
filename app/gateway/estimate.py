"""CallSize: the usage of a call, bounded and estimated from its request body; pure.

The maximum is checked against credit and budgets, so it must hold. The estimate is charged if the provider
neither reports nor counts the tokens.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic_core import from_json

from app.platform.serialization.large_json import count_parts
from app.storable import identifier
from app.usage.records import BYTES_PER_TOKEN, UNKNOWN_MODEL, TokenUsage

MOST_IMAGE_TOKENS = 4_800
IMAGE_TOKENS = 1_600
"""Images are scaled down to these sizes: at most, and in most models (width x height / 750)."""

DOCUMENT_TOKENS = 1_000_000
"""Bound of all documents whose text is not in the request (a PDF, a URL, a file id): the largest context."""

PROMPT_OVERHEAD = 64
TOOLS_OVERHEAD = 1_024
PROVIDER_TOOL_OVERHEAD = 5_000
"""Tokens that the provider adds to a prompt, to one with tools, and for each tool that it defines itself."""

TOOL_RESULT_TOKENS = 50_000
"""Assumed for the result of one use of a tool that the provider executes; no length is documented."""

LONGEST_OUTPUT = 128_000
SEARCHES = 10
"""The maxima of a call that sets no limits of its own."""

MOST_PARTS = 500_000
"""Commas and opening brackets: more would take long to parse, and no model accepts such a prompt."""

COUNT_TOLERANCE = 50
COUNT_TOLERANCE_TOKENS = 64
"""The provider calls its count of a prompt an estimate: it may be short by a 50th part and so many tokens."""

_ESCAPED_MARK = re.compile(rb"\\u00(?:31|5f|6[1358cef]|7[24])", re.IGNORECASE)
"""A character of `cache_control` or `1h` that is written as an escape, which no client has a reason for."""

_HERE = {"text", "content"}
_EXECUTED_BY_PROVIDER = ("web_search", "web_fetch", "code_execution", "tool_search", "mcp", "advisor")

PromptKind = Literal["input_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens"]


class PromptTooLarge(Exception):
    """A request has too many JSON parts to be parsed."""


@dataclass(frozen=True, slots=True)
class CallSize:
    """The usage of a call before it is made."""

    model: str
    maximum: TokenUsage
    """The most it may use, at the kind of prompt token that costs most."""
    estimate: TokenUsage
    """The approximate usage of its prompt alone, without an answer."""
    speed: str | None = None
    """The speed that it asks for; None: the usual one."""
    others: Mapping[str, int] = field(default_factory=dict)
    """Models that may use as much besides, and how often: fallbacks, advisors, a compaction."""
    kind: PromptKind = "input_tokens"
    readings: int = 1
    """How often the model may read the prompt: again after each use of a tool that the provider executes."""
    added_tokens: int = 0
    """What results of such tools may add to all readings together."""

    def counted(self, prompt_tokens: int) -> "CallSize":
        """The size of a call whose prompt the provider has counted."""
        bound = prompt_tokens + prompt_tokens // COUNT_TOLERANCE + COUNT_TOLERANCE_TOKENS
        total = min(self.readings * bound + self.added_tokens, self.maximum.prompt_tokens)
        maximum = replace(_prompt(self.kind, total), **_answer_of(self.maximum))
        return replace(self, maximum=maximum, estimate=_prompt(self.kind, prompt_tokens))


@dataclass(slots=True)
class _Attached:
    """The parts of a prompt that are not text."""

    images: int = 0
    documents: int = 0
    encoded_bytes: int = 0
    document_bytes: int = 0

    @property
    def most_tokens(self) -> int:
        return _most_tokens(images=self.images, documents=self.documents)

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
                    self.encoded_bytes += _length(source, "data")
                    self.document_bytes += _length(source, "data")
                case "tool_result" | "document":
                    self.add(block.get("content") or source.get("content"))


@dataclass(slots=True)
class _Tools:
    """The tools of a request, as far as they cost tokens."""

    overhead: int = 0
    searches: int = 0
    uses: int = 0
    """Of tools that the provider executes."""
    models: Counter[str] = field(default_factory=Counter)

    def add(self, tools: Any) -> None:
        for tool in _objects(tools):
            kind, uses = str(tool.get("type", "")), _positive(tool.get("max_uses"), SEARCHES)
            self.overhead = self.overhead or TOOLS_OVERHEAD
            if "input_schema" not in tool:
                self.overhead += PROVIDER_TOOL_OVERHEAD
            if kind.startswith(_EXECUTED_BY_PROVIDER):
                self.uses += uses
            if kind.startswith("web_search"):
                self.searches += uses
            if isinstance(model := tool.get("model"), str) and model:
                self.models[identifier(model)] += uses


def size_of(body: bytes) -> CallSize:
    """The size of the call with this body; raises `PromptTooLarge`."""
    if count_parts(body) > MOST_PARTS:
        raise PromptTooLarge
    try:
        request = from_json(body)
    except ValueError:
        request = None
    # The provider may understand a body that we do not: then assume the maximum.
    return size_of_request(request if isinstance(request, dict) else {}, body)


def size_of_request(request: Mapping[str, Any], body: bytes) -> CallSize:
    """The size of the call with this body, which is already parsed."""
    attached, tools = _Attached(), _Tools()
    for message in _objects(request.get("messages")):
        attached.add(message.get("content"))
    tools.add(request.get("tools"))
    tools.add(_servers(request.get("mcp_servers")))
    model, kind = request.get("model"), _kind(body)
    text_bytes = max(0, len(body) - attached.encoded_bytes)
    about = (text_bytes + attached.document_bytes) // BYTES_PER_TOKEN + attached.images * IMAGE_TOKENS
    name = identifier(model) if isinstance(model, str) and model else UNKNOWN_MODEL
    readings, added = 1 + tools.uses, TOOL_RESULT_TOKENS * tools.uses * (tools.uses + 1) // 2
    # A token is at least one byte, and JSON is no shorter than the text in it.
    prompt = text_bytes + PROMPT_OVERHEAD + tools.overhead + attached.most_tokens
    return CallSize(
        model=name,
        maximum=replace(
            _prompt(kind, readings * prompt + added),
            output_tokens=_longest_output(request),
            web_search_requests=tools.searches,
        ),
        estimate=_prompt(kind, about),
        speed=speed if isinstance(speed := request.get("speed"), str) else None,
        others=_other_models(request, name, tools.models),
        kind=kind,
        readings=readings,
        added_tokens=added,
    )


def text_size(
    model: str, texts: Iterable[str], *, images: int, documents: int = 0, output_tokens: int
) -> CallSize:
    """The size of a call that is not written as a request yet."""
    text_bytes = sum(len(text.encode("utf-8", "replace")) for text in texts)
    attached = _most_tokens(images=images, documents=documents)
    at_most = text_bytes + PROMPT_OVERHEAD + TOOLS_OVERHEAD + attached
    about = text_bytes // BYTES_PER_TOKEN + images * IMAGE_TOKENS
    longest = TokenUsage(input_tokens=at_most, output_tokens=output_tokens)
    return CallSize(model, longest, TokenUsage(input_tokens=about))


def _most_tokens(*, images: int, documents: int) -> int:
    # A prompt with more than the largest context is refused, however many documents it has.
    return images * MOST_IMAGE_TOKENS + (DOCUMENT_TOKENS if documents else 0)


def _kind(body: bytes) -> PromptKind:
    """The kind that costs most: if any part is marked, every token may be written to the cache."""
    if _ESCAPED_MARK.search(body):
        return "cache_write_1h_tokens"
    if b'"cache_control"' not in body:
        return "input_tokens"
    return "cache_write_1h_tokens" if b'"1h"' in body else "cache_write_5m_tokens"


def _prompt(kind: PromptKind, tokens: int) -> TokenUsage:
    return replace(TokenUsage(), **{kind: tokens})


def _answer_of(usage: TokenUsage) -> dict[str, int]:
    return {"output_tokens": usage.output_tokens, "web_search_requests": usage.web_search_requests}


def _longest_output(request: Mapping[str, Any]) -> int:
    thinking = request.get("thinking")
    budget = _positive(thinking.get("budget_tokens"), 0) if isinstance(thinking, dict) else 0
    # Thinking between tool calls may exceed the length of the message.
    return max(_positive(request.get("max_tokens"), LONGEST_OUTPUT), budget)


def _other_models(request: Mapping[str, Any], model: str, tools: Counter[str]) -> Mapping[str, int]:
    others = Counter(tools)
    for fallback in _objects(request.get("fallbacks")):
        if isinstance(name := fallback.get("model"), str) and name:
            others[identifier(name)] += 1
    management = request.get("context_management")
    for edit in _objects(management.get("edits") if isinstance(management, dict) else None):
        # The prompt is read and summarized before it is answered.
        others[model] += str(edit.get("type")).startswith("compact")
    return {name: times for name, times in others.items() if times}


def _servers(servers: Any) -> list[Mapping[str, Any]]:
    """The tools of MCP servers that the provider connects to."""
    return [{"type": "mcp"} for _ in _objects(servers)]


def _positive(value: Any, default: int) -> int:
    if type(value) is int and value > 0:
        return value
    try:
        # A provider that is less strict reads a number in `50.0` and `"50"`.
        return max(default, int(value))
    except (TypeError, ValueError, OverflowError):
        return default


def _objects(value: Any) -> Iterable[Mapping[str, Any]]:
    return (each for each in value if isinstance(each, dict)) if isinstance(value, list) else ()


def _length(source: Mapping[str, Any], name: str) -> int:
    data = source.get(name)
    return len(data) if isinstance(data, str) else 0
