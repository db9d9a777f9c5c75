"""UsageFold: SDK messages -> the token usage of each API message; pure.

`AssistantMessage.usage` is a snapshot from the start of the message, repeated for every content
block. The final numbers arrive in `message_delta`, so those are reported, once per message id.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from claude_agent_sdk import AssistantMessage, Message, StreamEvent

from app.gateway.answer_usage import MessageUsage
from app.ids import MessageId
from app.usage.provider import Reported, clean_usage, merge_usage, served_by, token_usage
from app.usage.records import BYTES_PER_TOKEN, UNKNOWN_MODEL, TokenUsage


@dataclass(frozen=True, slots=True)
class MeteredMessage:
    """The usage of one API message; `final` if the API sent its last numbers."""

    message_id: MessageId
    model: str
    usage: TokenUsage
    final: bool
    parent_tool_call_id: str | None = None
    reported: Reported = field(default_factory=dict)
    """The provider's whole usage object."""
    stop_reason: str | None = None
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    """When it began."""

    def as_measured(self) -> MessageUsage:
        """The message, where no gateway has measured it."""
        return MessageUsage(
            self.message_id,
            served_by(self.reported) or self.model,
            self.usage,
            complete=self.final,
            reported=self.reported,
            stop_reason=self.stop_reason,
            output_estimated=not self.final,
            at=self.at,
        )


@dataclass(slots=True)
class _OpenMessage:
    message_id: str
    model: str
    raw: dict[str, Any]
    received_bytes: int = 0
    stop_reason: str | None = None
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(slots=True)
class UsageFold:
    """Feed every SDK message in order; each call returns the messages that it completed."""

    _open: dict[str | None, _OpenMessage] = field(default_factory=dict)
    _reported: set[str] = field(default_factory=set)

    def feed(self, message: Message) -> list[MeteredMessage]:
        if isinstance(message, StreamEvent):
            return self._stream_event(message.event, message.parent_tool_use_id)
        if isinstance(message, AssistantMessage):
            return self._assistant(message)
        return []

    def finish(self) -> list[MeteredMessage]:
        """The messages that are still open; they were truncated."""
        return [closed for parent in list(self._open) for closed in self._close_truncated(parent)]

    def _stream_event(self, event: Mapping[str, Any], parent: str | None) -> list[MeteredMessage]:
        match event.get("type"):
            case "message_start":
                cut = self._close_truncated(parent)
                started = event["message"]
                self._open[parent] = _OpenMessage(
                    # Without an id only the gateway can bill it.
                    str(started.get("id") or ""),
                    str(started.get("model") or UNKNOWN_MODEL),
                    clean_usage(started.get("usage")),
                )
                return cut
            case "content_block_delta" if parent in self._open:
                self._open[parent].received_bytes += _size(event["delta"])
                return []
            case "message_delta" if parent in self._open:
                return self._message_delta(event, parent)
            case "message_stop":
                return self._close_truncated(parent)
            case _:
                return []

    def _message_delta(self, event: Mapping[str, Any], parent: str | None) -> list[MeteredMessage]:
        current = self._open[parent]
        current.raw = merge_usage(current.raw, clean_usage(event.get("usage")))
        # A delta without a stop reason is made up by the CLI when it gave up on the message.
        if (reason := event["delta"].get("stop_reason")) is None:
            return []
        current.stop_reason = str(reason)
        del self._open[parent]
        return self._report(current, parent, token_usage(current.raw), final=True)

    def _assistant(self, message: AssistantMessage) -> list[MeteredMessage]:
        # A stop reason here means a body that was not streamed: only then is its usage final.
        if message.stop_reason is None or message.message_id is None:
            return []
        parent = message.parent_tool_use_id
        if parent in self._open and self._open[parent].message_id == message.message_id:
            return []
        whole = _OpenMessage(
            message.message_id, message.model, clean_usage(message.usage), stop_reason=message.stop_reason
        )
        return self._report(whole, parent, token_usage(whole.raw), final=True)

    def _close_truncated(self, parent: str | None) -> list[MeteredMessage]:
        current = self._open.pop(parent, None)
        if current is None:
            return []
        known = token_usage(current.raw)
        received = math.ceil(current.received_bytes / BYTES_PER_TOKEN)
        counted = replace(known, output_tokens=max(known.output_tokens, received))
        return self._report(current, parent, counted, final=False)

    def _report(
        self,
        message: _OpenMessage,
        parent: str | None,
        usage: TokenUsage,
        *,
        final: bool,
    ) -> list[MeteredMessage]:
        if not is_message_id(message.message_id) or message.message_id in self._reported:
            return []
        self._reported.add(message.message_id)
        return [
            MeteredMessage(
                MessageId(message.message_id),
                message.model,
                usage,
                final,
                parent,
                reported=message.raw,
                stop_reason=message.stop_reason,
                at=message.at,
            )
        ]


def is_message_id(message_id: str) -> bool:
    """Whether it is an id of the API; messages made up by the CLI (errors, notes) have other ids."""
    return message_id.startswith("msg_")


def _size(delta: Mapping[str, Any]) -> int:
    texts = (delta.get(name) for name in ("text", "thinking", "partial_json"))
    return sum(len(text.encode("utf-8", "replace")) for text in texts if text)
