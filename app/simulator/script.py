"""Replies of the scripted model, as data."""

import asyncio
import itertools
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

ContentEncoding = Literal["gzip", "deflate"]

_WORDS = re.compile(r"\s*\S+\s*?(?=\s|$)|\s+$")
_message_numbers = itertools.count(1)


def new_message_id() -> str:
    return f"msg_sim{next(_message_numbers):020d}"


@dataclass(frozen=True, slots=True)
class Text:
    """A text block, streamed word by word, then its citations."""

    text: str
    citations: Sequence[dict[str, Any]] = ()

    @property
    def pieces(self) -> list[str]:
        return _WORDS.findall(self.text) or [self.text]


@dataclass(frozen=True, slots=True)
class Thinking:
    """A thinking block."""

    thinking: str
    signature: str = "c2lnbmF0dXJl"


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call; `raw` replaces the input by text that need not be JSON."""

    name: str
    input: dict[str, Any] = field(default_factory=dict)
    id: str = ""
    raw: str | None = None


@dataclass(frozen=True, slots=True)
class Compaction:
    """The summary that the provider makes of a conversation; None if it could not."""

    content: str | None


@dataclass(frozen=True, slots=True)
class ServerToolUse:
    """A call that the provider executes itself."""

    name: str
    input: dict[str, Any]
    id: str


@dataclass(frozen=True, slots=True)
class ServerToolResult:
    """What the provider found: a list of pages, one page, or an error, as the API has them."""

    kind: str
    tool_use_id: str
    content: Any


Block: TypeAlias = Text | Thinking | ToolUse | Compaction | ServerToolUse | ServerToolResult


@dataclass(frozen=True, slots=True)
class Hold:
    """Wait before the event with this index until `until` is set; `reached` is set when waiting begins."""

    index: int
    until: asyncio.Event = field(default_factory=asyncio.Event)
    reached: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class Reply:
    """One message of the model and how it is sent.

    `usage` is sent in `message_start`, `final_usage` in `message_delta`; both are raw objects of the API.
    """

    blocks: Sequence[Block] = ()
    stop_reason: str | None = None
    """None: what the last block says: `tool_use`, `compaction`, or `end_turn` after any other."""
    usage: dict[str, Any] = field(default_factory=lambda: {"input_tokens": 10, "output_tokens": 1})
    final_usage: dict[str, Any] = field(default_factory=lambda: {"output_tokens": 20})
    model: str | None = None
    """The serving model; None: the requested one, or its dated release (`Simulator.releases`)."""
    message_id: str = field(default_factory=new_message_id)
    headers_delay_s: float = 0
    delta_delay_s: float = 0
    hold: Hold | None = None
    cut_after: int | None = None
    """Drop the connection after this many events."""
    error_after: tuple[int, str] | None = None
    """After this many events, an error event of this type."""
    encoding: ContentEncoding | None = None
    """Compress the answer, whatever encoding the request accepts."""
    headers: dict[str, str] = field(default_factory=dict)
    """Further headers of the answer."""


@dataclass(frozen=True, slots=True)
class HttpError:
    """An error answer."""

    status: int
    type: str = "api_error"
    message: str = "simulated failure: secret upstream detail"
    headers: dict[str, str] = field(default_factory=dict)
    details: dict[str, Any] | None = None
    """The exact reason, if the provider names one: its `error_code` and what belongs to it."""


Answer: TypeAlias = Reply | HttpError


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request to the Messages API, as received."""

    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation, without the system messages that the CLI sends to newer models."""
        return [message for message in self.body["messages"] if message["role"] != "system"]

    @property
    def tool_names(self) -> list[str]:
        """The tools offered, by the names the model calls them by."""
        return [tool["name"] for tool in self.body.get("tools", [])]

    @property
    def system(self) -> str:
        return text_of(self.body.get("system", ""))

    @property
    def last_text(self) -> str:
        """The text of the last message."""
        return text_of(self.messages[-1]["content"])

    @property
    def tool_results(self) -> list[dict[str, Any]]:
        return blocks_of(self.messages[-1], "tool_result")


Responder: TypeAlias = Callable[[ApiRequest], Answer | Awaitable[Answer]]


def text_of(content: str | list[dict[str, Any]]) -> str:
    """The text of a message's content, without tool results."""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block.get("type") == "text")


def blocks_of(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    content = message["content"]
    return [] if isinstance(content, str) else [block for block in content if block["type"] == kind]


def in_turn(*answers: Answer) -> Responder:
    """Give these answers one after the other; further requests get a 500."""
    waiting = iter(answers)

    def respond(_request: ApiRequest) -> Answer:
        return next(waiting, HttpError(500, message="the script has ended"))

    return respond
