"""SDK frames -> what each message used; a pure fold.

`AssistantMessage.usage` is a snapshot taken when the message began, repeated for every content
block. The true numbers arrive in `message_delta`, so that is what counts: one statement per
message id, with the last numbers, never the first.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from claude_agent_sdk import AssistantMessage, Message, StreamEvent

from app.ids import MessageId
from app.usage import BYTES_PER_TOKEN, TokenUsage, merged, token_usage


@dataclass(frozen=True, slots=True)
class MeteredMessage:
    """A message of the API and what it used; `final` when the API said its last number."""

    message_id: MessageId
    model: str
    usage: TokenUsage
    final: bool
    parent_tool_call_id: str | None = None


@dataclass(slots=True)
class _OpenMessage:
    message_id: str
    model: str
    raw: dict[str, Any]
    received_bytes: int = 0


@dataclass(slots=True)
class UsageFold:
    """Feed every SDK message in order; each call returns the messages that it completed."""

    _open: dict[str | None, _OpenMessage] = field(default_factory=dict)
    _stated: set[str] = field(default_factory=set)

    def feed(self, message: Message) -> list[MeteredMessage]:
        """Messages completed by this one."""
        if isinstance(message, StreamEvent):
            return self._stream_event(message.event, message.parent_tool_use_id)
        if isinstance(message, AssistantMessage):
            return self._assistant(message)
        return []

    def finish(self) -> list[MeteredMessage]:
        """Nothing more will come: what is still open was cut off."""
        return [closed for lane in list(self._open) for closed in self._close_cut(lane)]

    def _stream_event(self, event: Mapping[str, Any], lane: str | None) -> list[MeteredMessage]:
        match event.get("type"):
            case "message_start":
                cut = self._close_cut(lane)
                started = event["message"]
                self._open[lane] = _OpenMessage(
                    started["id"], started["model"], dict(started.get("usage") or {})
                )
                return cut
            case "content_block_delta" if lane in self._open:
                self._open[lane].received_bytes += _size(event["delta"])
                return []
            case "message_delta" if lane in self._open:
                return self._message_delta(event, lane)
            case "message_stop":
                return self._close_cut(lane)
            case _:
                return []

    def _message_delta(self, event: Mapping[str, Any], lane: str | None) -> list[MeteredMessage]:
        current = self._open[lane]
        current.raw = merged(current.raw, event.get("usage") or {})
        # A delta without a stop reason is the CLI's own, made when it gave up on the message.
        if event["delta"].get("stop_reason") is None:
            return []
        del self._open[lane]
        return self._state(current, lane, token_usage(current.raw), final=True)

    def _assistant(self, message: AssistantMessage) -> list[MeteredMessage]:
        # A stop reason here means a body that was not streamed: only then is its usage final.
        if message.stop_reason is None or message.message_id is None:
            return []
        lane = message.parent_tool_use_id
        if lane in self._open and self._open[lane].message_id == message.message_id:
            return []
        whole = _OpenMessage(message.message_id, message.model, dict(message.usage or {}))
        return self._state(whole, lane, token_usage(whole.raw), final=True)

    def _close_cut(self, lane: str | None) -> list[MeteredMessage]:
        current = self._open.pop(lane, None)
        if current is None:
            return []
        known = token_usage(current.raw)
        received = math.ceil(current.received_bytes / BYTES_PER_TOKEN)
        counted = replace(known, output_tokens=max(known.output_tokens, received))
        return self._state(current, lane, counted, final=False)

    def _state(
        self,
        message: _OpenMessage,
        lane: str | None,
        usage: TokenUsage,
        *,
        final: bool,
    ) -> list[MeteredMessage]:
        if not is_message_id(message.message_id) or message.message_id in self._stated:
            return []
        self._stated.add(message.message_id)
        return [MeteredMessage(MessageId(message.message_id), message.model, usage, final, lane)]


def is_message_id(message_id: str) -> bool:
    """Whether it is an id of the API; messages the CLI makes up itself (errors, notes) have none."""
    return message_id.startswith("msg_")


def _size(delta: Mapping[str, Any]) -> int:
    texts = (delta.get(name) for name in ("text", "thinking", "partial_json"))
    return sum(len(text.encode("utf-8", "replace")) for text in texts if text)
