"""Responses of the Messages API -> the usage of their message; pure.

Takes bytes in pieces of any size. A bounded part of the text is kept, in case the message is truncated
and its output has to be counted. Data that cannot be parsed is skipped: the agent reports it, and the
rest of the message is still billed.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import structlog

from app.ids import MessageId
from app.provider_usage import clean_usage, lost_output, merge_usage, served_by, token_usage
from app.serialization.large_json import count_parts
from app.serialization.storable import identifier
from app.usage import UNKNOWN_MODEL, CacheMiss, ProviderCall, TokenUsage, estimated_tokens

log = structlog.get_logger(__name__)

ANSWER_BYTES = 32 * 1024 * 1024
"""Limit of one response: twice the longest message of any model, streamed in the smallest pieces."""

MAX_JSON_BYTES = 8 * 1024 * 1024
"""Limit of a response that is not streamed."""

LINE_BYTES = 4 * 1024 * 1024
"""Limit of one line of a streamed response."""

KEPT_BYTES = 8 * 1024 * 1024
"""How much of a streamed response is kept in case it is truncated; tokens of the rest are extrapolated."""

MOST_PARTS = 200_000
"""Commas and opening brackets of one JSON text: more would take long to parse; no message has so many."""

_MOST_DIGITS = 20


class AnswerTooLarge(Exception):
    """A response of the provider exceeds a limit."""


@dataclass(frozen=True, slots=True)
class MessageUsage:
    """The usage of one message, from the provider's response."""

    message_id: MessageId
    model: str
    """The model that served it."""
    usage: TokenUsage
    complete: bool
    """Whether the API sent its last numbers."""
    reported: Mapping[str, Any] = field(default_factory=dict)
    """The provider's whole usage object."""
    call: ProviderCall = field(default_factory=ProviderCall)
    stop_reason: str | None = None
    whole_blocks: int = 0
    """Complete content blocks."""
    output_estimated: bool = False
    note: str | None = None
    """What is unusual about it, for the receipt."""
    duplicate_of: MessageId | None = None
    """The id the provider gave it, if another message has the same id."""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    """When it began."""
    cache_miss: CacheMiss | None = None

    @property
    def is_turn(self) -> bool:
        """Whether it counts as a turn: an empty start that is retried does not."""
        return self.complete or self.whole_blocks > 0


@dataclass(slots=True)
class StreamFold:
    """Feed it a streamed response chunk by chunk."""

    call: ProviderCall = field(default_factory=ProviderCall)
    longest_output: int | None = None
    """The requested maximum of tokens: no estimate is larger."""
    message: MessageUsage | None = None
    """The message as far as it is known."""
    failed: bool = False
    """Whether the API sent an error instead of a message."""
    _bytes: int = 0
    _rest: bytearray = field(default_factory=bytearray)
    _event: bytes = b""
    _raw: dict[str, Any] = field(default_factory=dict)
    _received: list[str] = field(default_factory=list)
    _kept_bytes: int = 0
    _dropped_bytes: int = 0

    def feed(self, chunk: bytes) -> bool:
        """Process the next bytes; True if the message has begun or its last numbers have arrived.

        Raises `AnswerTooLarge`; everything before is processed.
        """
        *ends, rest = chunk.split(b"\n")
        news = self._lines([bytes(self._rest) + ends[0], *ends[1:]]) if ends else False
        # In place: a line may arrive byte by byte.
        if ends:
            self._rest.clear()
        self._rest += rest
        self._bytes += len(chunk)
        if self._bytes > ANSWER_BYTES or len(self._rest) > LINE_BYTES:
            self._rest.clear()
            raise AnswerTooLarge
        return news

    def _lines(self, lines: Iterable[bytes]) -> bool:
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
        """Text, thinking and tool input that was received, as far as it is kept."""
        return "".join(self._received)

    def finish(self, *, counted: int | None = None) -> MessageUsage | None:
        """The message at the end of the stream: complete, or partial with its output counted.

        `counted` is the number of received tokens, if the provider counted them; else it is estimated.
        """
        # The last line may be complete but for its line end.
        last = bytes(self._rest)
        self._rest.clear()
        self._lines([last])
        message = self.message
        if message is None or message.complete:
            return message
        arrived = estimated_tokens(self.received()) if counted is None else counted
        if self._dropped_bytes:
            arrived = math.ceil(arrived * (1 + self._dropped_bytes / self._kept_bytes))
        if self.longest_output is not None:
            arrived = min(arrived, self.longest_output)
        known = token_usage(self._raw)
        usage = replace(known, output_tokens=max(known.output_tokens, arrived))
        return replace(message, usage=usage, output_estimated=True)

    def _data(self, data: bytes) -> bool:
        if self._event == b"content_block_delta":
            self._keep(data)
            return False
        event = _object(_parsed(data))
        match event.get("type"):
            case "message_start" if self.message is None:
                return self._started(_object(event.get("message")))
            case "content_block_delta":
                self._keep(data)
            case "content_block_stop" if self.message is not None:
                self.message = replace(self.message, whole_blocks=self.message.whole_blocks + 1)
            case "message_delta" if self.message is not None:
                return self._delta(self.message, event)
            case "error" if self.message is None:
                self.failed = True
            case None | "message_start":
                log.warning(
                    "gateway.event_unparsable", request_id=self.call.provider_request_id, bytes=len(data)
                )
            case _:
                pass
        return False

    def _keep(self, data: bytes) -> None:
        if self._kept_bytes < KEPT_BYTES:
            # Parse now: at the end of a long truncated answer it would block the event loop.
            delta = _object(_object(_parsed(data)).get("delta"))
            parts = (delta.get(kind) for kind in ("text", "thinking", "partial_json"))
            self._received += [part for part in parts if isinstance(part, str)]
            self._kept_bytes += len(data)
        else:
            self._dropped_bytes += len(data)

    def _started(self, message: Mapping[str, Any]) -> bool:
        message_id = _identifier(message.get("id")) or self.call.provider_request_id
        if message_id is None:
            log.error("gateway.message_without_id", model=_model_of(message, {}))
            return False
        self._raw = clean_usage(message.get("usage"))
        self.message = MessageUsage(
            message_id=MessageId(message_id),
            model=_model_of(message, self._raw),
            usage=token_usage(self._raw),
            complete=False,
            reported=self._raw,
            call=self.call,
        )
        return True

    def _delta(self, message: MessageUsage, event: Mapping[str, Any]) -> bool:
        self._raw = merge_usage(self._raw, clean_usage(event.get("usage")))
        usage = token_usage(self._raw)
        if uncounted := lost_output(self._raw):
            usage = replace(usage, output_tokens=max(usage.output_tokens, estimated_tokens(self.received())))
        reason = _text(_object(event.get("delta")).get("stop_reason")) or message.stop_reason
        self.message = replace(
            message,
            model=served_by(self._raw) or message.model,
            usage=usage,
            reported=self._raw,
            complete=reason is not None,
            stop_reason=reason,
            output_estimated=uncounted,
        )
        return reason is not None


def parse_message(body: bytes, *, call: ProviderCall) -> MessageUsage | None:
    """The message of a response that was not streamed; None if it is no message."""
    message = _object(_parsed(body))
    message_id = _identifier(message.get("id")) or call.provider_request_id
    if message_id is None or not isinstance(message.get("usage"), dict):
        return None
    content, reported = message.get("content"), clean_usage(message["usage"])
    usage = token_usage(reported)
    if uncounted := lost_output(reported):
        usage = replace(
            usage, output_tokens=estimated_tokens(json.dumps(content) if isinstance(content, list) else "")
        )
    return MessageUsage(
        message_id=MessageId(message_id),
        model=_model_of(message, reported),
        usage=usage,
        complete=True,
        reported=reported,
        call=call,
        stop_reason=_text(message.get("stop_reason")),
        whole_blocks=len(content) if isinstance(content, list) else 0,
        output_estimated=uncounted,
    )


def _model_of(message: Mapping[str, Any], reported: Mapping[str, Any]) -> str:
    return served_by(reported) or _identifier(message.get("model")) or UNKNOWN_MODEL


def _parsed(data: bytes) -> Any:
    if count_parts(data) > MOST_PARTS:
        return None
    try:
        return json.loads(data, parse_int=_int)
    except (ValueError, RecursionError):
        return None


def _int(digits: str) -> int | None:
    # Python refuses to parse numbers of thousands of digits, and with them the whole event.
    return int(digits) if len(digits) <= _MOST_DIGITS else None


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _identifier(value: Any) -> str | None:
    """An id that can be stored anywhere."""
    text = _text(value)
    return None if text is None else identifier(text)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
