"""Messages API answers -> what the message used; pure.

Bytes in, in whatever pieces they come. Only the few events that carry numbers are parsed; the
rest is kept as it is until a message is cut off and what came of it must be counted.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from app.ids import MessageId
from app.usage import TokenUsage, estimated_tokens, merged, token_usage


@dataclass(frozen=True, slots=True)
class MessageUsage:
    """One message as the wire tells it."""

    message_id: MessageId
    model: str
    """The model that served it."""
    usage: TokenUsage
    complete: bool
    """Whether the API said its last number."""
    stop_reason: str | None = None
    request_id: str | None = None
    whole_blocks: int = 0
    """Content blocks that came to their end."""
    output_estimated: bool = False
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    """When it began."""

    @property
    def is_turn(self) -> bool:
        """Whether it counts as an answer: an empty start that is tried again does not."""
        return self.complete or self.whole_blocks > 0


@dataclass(slots=True)
class StreamFold:
    """Feed it a streamed answer chunk by chunk."""

    request_id: str | None = None
    message: MessageUsage | None = None
    """The message as known so far."""
    _rest: bytes = b""
    _event: bytes = b""
    _raw: dict[str, Any] = field(default_factory=dict)
    _pieces: list[bytes] = field(default_factory=list)

    def feed(self, chunk: bytes) -> bool:
        """Take the next bytes; True when the message has begun or its last number has come."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        news = False
        for line in lines:
            if line.startswith(b"event:"):
                self._event = line[6:].strip()
            elif line.startswith(b"data:"):
                news = self._data(line[5:]) or news
            elif not line.strip():
                self._event = b""
        return news

    def received(self) -> str:
        """Text, thinking and tool input that came through."""
        deltas = (json.loads(piece)["delta"] for piece in self._pieces)
        parts = (delta.get(kind) for delta in deltas for kind in ("text", "thinking", "partial_json"))
        return "".join(part for part in parts if part)

    def cut_off(self, *, counted: int | None = None) -> MessageUsage | None:
        """The message when nothing more will come: complete, or partial with its output counted.

        `counted` is how many tokens were received, where somebody knows; else it is estimated.
        """
        message = self.message
        if message is None or message.complete:
            return message
        arrived = estimated_tokens(self.received()) if counted is None else counted
        known = token_usage(self._raw)
        usage = replace(known, output_tokens=max(known.output_tokens, arrived))
        return replace(message, usage=usage, output_estimated=True)

    def _data(self, data: bytes) -> bool:
        if self._event == b"content_block_delta":
            self._pieces.append(data)
            return False
        if self._event == b"ping":
            return False
        event = json.loads(data)
        match event.get("type"):
            case "message_start":
                return self._started(event["message"])
            case "content_block_delta":
                self._pieces.append(data)
            case "content_block_stop" if self.message is not None:
                self.message = replace(self.message, whole_blocks=self.message.whole_blocks + 1)
            case "message_delta" if self.message is not None:
                return self._delta(self.message, event)
            case _:
                pass
        return False

    def _started(self, message: Mapping[str, Any]) -> bool:
        self._raw = dict(message.get("usage") or {})
        self.message = MessageUsage(
            message_id=MessageId(message["id"]),
            model=message["model"],
            usage=token_usage(self._raw),
            complete=False,
            request_id=self.request_id,
        )
        return True

    def _delta(self, message: MessageUsage, event: Mapping[str, Any]) -> bool:
        self._raw = merged(self._raw, event.get("usage") or {})
        reason = event["delta"].get("stop_reason")
        self.message = replace(
            message,
            model=_served_by(self._raw) or message.model,
            usage=token_usage(self._raw),
            complete=reason is not None,
            stop_reason=reason,
        )
        return reason is not None


def whole_message(body: bytes, *, request_id: str | None) -> MessageUsage | None:
    """The message of an answer that was not streamed; None when it is none."""
    try:
        message = json.loads(body)
        raw = message["usage"]
        return MessageUsage(
            message_id=MessageId(message["id"]),
            model=_served_by(raw) or message["model"],
            usage=token_usage(raw),
            complete=True,
            stop_reason=message.get("stop_reason"),
            request_id=request_id,
            whole_blocks=len(message["content"]),
        )
    except (ValueError, KeyError, TypeError):
        return None


def _served_by(raw: Mapping[str, Any]) -> str | None:
    """The model of the last iteration, where the API fell back to another one on its side."""
    iterations = raw.get("iterations") or [{}]
    model = iterations[-1].get("model")
    return model if isinstance(model, str) else None
