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
from operator import le
from typing import Any

import structlog

from app.gateway.answers import text_deltas
from app.gateway.answers.event_lines import EventLine, EventLines
from app.gateway.answers.received import ReceivedContent
from app.ids import MessageId
from app.platform.serialization.large_json import count_parts
from app.storable import identifier
from app.usage.provider import (
    Reported,
    clean_usage,
    highest_usage,
    lacks_count,
    merge_usage,
    omits_count,
    served_by,
    token_usage,
)
from app.usage.records import UNKNOWN_MODEL, CacheMiss, ProviderCall, TokenUsage, estimated_tokens

log = structlog.get_logger(__name__)

PROGRESS_TOKENS = 16
"""What has arrived of a message is recorded in steps of so many tokens, rounded up."""

MOST_PARTS = 200_000
"""Commas and opening brackets of one JSON text: more would take long to parse; no message has so many."""

UNNAMED = MessageId("")
"""Stands for an id that the provider did not send; the call replaces it by one of its own."""

UNCOUNTED = "the provider reported no usage; it is estimated"
SECOND = "the response had a second message, which is not charged"
RESTARTED = "the provider reported different numbers for this message; the highest are charged"

_MOST_DIGITS = 20

_WITH_NUMBERS, _WITH_OUTPUT = {b"", b"message_start", b"message_delta"}, {b"", b"content_block_delta"}
"""Events that may have the numbers, or output, of a message, by name; an event may have none."""


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
    unreadable: tuple[str, ...] = ()
    """The counts of which the provider sent no valid number; without them no limit can be enforced."""

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
    prompt_tokens: int = 0
    """The prompt's estimated tokens, for a response that does not report them."""
    message: MessageUsage | None = None
    """The message as far as it is known."""
    failed: bool = False
    """Whether the API sent an error instead of a message."""
    broken: bool = False
    """Whether it sent one within the message, which has no end then."""
    _lines: EventLines = field(default_factory=EventLines)
    _is_handled: bool = False
    """Whether the first line of the current event was the whole event."""
    _raw: dict[str, Any] = field(default_factory=dict)
    _restarted: bool = False
    _has_second: bool = False
    """Whether another message has begun."""
    _is_blind: bool = False
    """Whether an event could not be read that may have had the message's numbers."""
    _content: ReceivedContent = field(default_factory=ReceivedContent)
    _recorded: tuple[int, int] = (0, 0)
    """Tokens and searches that `grown` has returned."""

    def feed(self, chunk: bytes) -> bool:
        """Process the next bytes; True if the message has begun or its last numbers have arrived."""
        news = [self._line(line) for line in text_deltas.feed(self._lines, self._content, chunk)]
        return any(news)

    @property
    def is_complete(self) -> bool:
        """Whether the message's last numbers have arrived."""
        return self.message is not None and self.message.complete

    def received(self) -> str:
        """Text, thinking and tool input that was received, as far as it is kept."""
        return self._content.text

    def received_tokens(self, counted: int | None = None) -> int:
        """The tokens of what was received; `counted` by the provider, or else estimated."""
        return self._bounded(self._content.tokens(counted))

    def grown(self) -> MessageUsage | None:
        """The unfinished message, if more has arrived than this returned before; its output is rounded up."""
        message, arrived = self.message, (self._content.tokens(), self._content.searches)
        if message is None or message.complete or all(map(le, arrived, self._recorded)):
            return None
        steps = math.ceil(arrived[0] / PROGRESS_TOKENS)
        self._recorded = steps * PROGRESS_TOKENS, self._content.searches
        return self._cut(message, self._bounded(self._recorded[0]))

    def finish(self, *, counted: int | None = None) -> MessageUsage | None:
        """The message at the end of the stream: complete, or partial with its output counted.

        `counted` is the number of received tokens, if the provider counted them; else it is estimated.
        """
        for line in self._lines.finish():
            self._line(line)
        message = self.message
        if message is None or message.complete:
            return message
        return self._cut(message, self.received_tokens(counted))

    def _bounded(self, tokens: int) -> int:
        return tokens if self.longest_output is None else min(tokens, self.longest_output)

    def _cut(self, message: MessageUsage, arrived: int) -> MessageUsage:
        """The message if it ends here, with at least so much output."""
        known = token_usage(self._raw)
        usage = replace(
            _with_prompt(self._raw, known, self.prompt_tokens),
            output_tokens=max(known.output_tokens, arrived),
            web_search_requests=max(known.web_search_requests, self._content.searches),
        )
        unreadable = _unreadable(self._raw, _NEEDED if self._is_blind else ("input_tokens",))
        if self._is_blind:
            unreadable = unreadable or ("output_tokens",)
        note = UNCOUNTED if unreadable else message.note
        return replace(message, usage=usage, output_estimated=True, unreadable=unreadable, note=note)

    def _line(self, line: EventLine) -> bool:
        """Process a line of data; the first one of an event only if it is the whole event."""
        if line.is_whole and self._is_handled:
            self._is_handled = False
            return False
        if line.dropped_bytes:
            self._on_dropped(line)
            return False
        if line.event == b"content_block_delta" and self._content.is_full:
            self._content.skip(len(line.data))
            self._is_handled = not line.is_whole
            return False
        event = _parsed(line.data)
        if isinstance(event, dict):
            self._is_handled = not line.is_whole
            return self._event(event, len(line.data))
        if line.is_whole:
            self._is_blind = self._is_blind or line.event in _WITH_NUMBERS
            self._warn(len(line.data))
        return False

    def _on_dropped(self, line: EventLine) -> None:
        self._is_blind = self._is_blind or line.event in _WITH_NUMBERS
        if line.event in _WITH_OUTPUT:
            self._content.skip(line.dropped_bytes)
        self._warn(line.dropped_bytes)

    def _event(self, event: Mapping[str, Any], size: int) -> bool:
        match event.get("type"):
            case "message_start":
                return self._started(_object(event.get("message")))
            case "content_block_start":
                self._content.start_block(_object(event.get("content_block")), size)
            case "content_block_delta":
                self._content.add(_object(event.get("delta")), size)
            case "content_block_stop" if self.message is not None:
                self.message = replace(self.message, whole_blocks=self.message.whole_blocks + 1)
            case "message_delta" if self.message is not None:
                return self._delta(self.message, event)
            case "error":
                self.failed = self.failed or self.message is None
                self.broken = self.message is not None and not self.is_complete
            case None:
                self._content.add(_object(event.get("delta")), size)
                self._warn(size)
        return False

    def _warn(self, size: int) -> None:
        log.warning("gateway.event_unparsable", request_id=self.call.provider_request_id, bytes=size)

    def _started(self, message: Mapping[str, Any]) -> bool:
        reported = clean_usage(message.get("usage"))
        if self.message is not None and _identifier(message.get("id")) in {None, self.message.message_id}:
            return self._started_again(self.message, reported)
        if self.message is not None:
            self._second_started(self.message)
            return False
        self._raw = reported
        self.message = MessageUsage(
            message_id=id_of(message, self.call),
            model=model_of(message, self._raw),
            usage=_with_prompt(self._raw, token_usage(self._raw), self.prompt_tokens),
            complete=False,
            reported=self._raw,
            call=self.call,
        )
        return True

    def _started_again(self, message: MessageUsage, reported: Reported) -> bool:
        """The response begins a second time: it is one message, and its higher counts are charged."""
        self._restart()
        self._raw = highest_usage(self._raw, reported)
        self.message = self._counted(message, complete=message.complete)
        return True

    def _second_started(self, message: MessageUsage) -> None:
        """One response has one message: another one is never charged, but reported."""
        log.error("gateway.second_message", request_id=self.call.provider_request_id)
        self._has_second = True
        self.message = replace(message, note=message.note or SECOND)

    def _restart(self) -> None:
        log.error("gateway.message_restarted", request_id=self.call.provider_request_id)
        self._restarted = True

    def _delta(self, message: MessageUsage, event: Mapping[str, Any]) -> bool:
        if self._has_second and message.complete:
            # Of the second message.
            return False
        reported = clean_usage(event.get("usage"))
        merged, highest = merge_usage(self._raw, reported), highest_usage(self._raw, reported)
        if message.complete and token_usage(merged) != token_usage(highest):
            self._restart()
        self._raw = highest if self._restarted else merged
        self._recorded = (0, 0)
        reason = _text(_object(event.get("delta")).get("stop_reason")) or message.stop_reason
        message = replace(message, model=served_by(self._raw) or message.model, stop_reason=reason)
        self.message = self._counted(message, complete=reason is not None)
        return reason is not None

    def _counted(self, message: MessageUsage, *, complete: bool) -> MessageUsage:
        """The message with the counts reported so far; missing ones are estimated."""
        usage = _with_prompt(self._raw, token_usage(self._raw), self.prompt_tokens)
        if uncounted := lacks_count(self._raw, "output_tokens"):
            usage = replace(usage, output_tokens=max(usage.output_tokens, self.received_tokens()))
        unreadable = _unreadable(self._raw, _NEEDED) if complete else ()
        return replace(
            message,
            usage=usage,
            reported=self._raw,
            complete=complete,
            output_estimated=uncounted,
            unreadable=unreadable,
            note=_note(message, self._raw, restarted=self._restarted) if complete else message.note,
        )


def parse_message(
    body: bytes, *, call: ProviderCall, prompt_tokens: int = 0, longest_output: int | None = None
) -> MessageUsage | None:
    """The message of a response that was not streamed; None if it is no message.

    `prompt_tokens` and `longest_output` are used if it does not report its usage.
    """
    message = _object(_parsed(body))
    content, reported = message.get("content"), clean_usage(message.get("usage"))
    if not isinstance(message.get("usage"), dict) and not isinstance(content, list):
        return None
    usage = _with_prompt(reported, token_usage(reported), prompt_tokens)
    if uncounted := lacks_count(reported, "output_tokens"):
        arrived = estimated_tokens(json.dumps(content) if isinstance(content, list) else "")
        usage = replace(usage, output_tokens=min(arrived, longest_output or arrived))
    found = MessageUsage(
        message_id=id_of(message, call),
        model=model_of(message, reported),
        usage=usage,
        complete=True,
        reported=reported,
        call=call,
        stop_reason=_text(message.get("stop_reason")),
        whole_blocks=len(content) if isinstance(content, list) else 0,
        output_estimated=uncounted,
        unreadable=_unreadable(reported, _NEEDED),
    )
    return replace(found, note=_note(found, reported, restarted=False))


def is_error(body: bytes) -> bool:
    """Whether a response that was not streamed is an error of the API."""
    return _object(_parsed(body)).get("type") == "error"


_NEEDED = ("input_tokens", "output_tokens")


def _unreadable(reported: Reported, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in names if lacks_count(reported, name))


def _with_prompt(reported: Reported, usage: TokenUsage, estimate: int) -> TokenUsage:
    """The usage with the estimate of a prompt whose tokens the provider did not report at all.

    A count that is no number is not replaced: it makes the message unpriced.
    """
    if omits_count(reported, "input_tokens") and not usage.prompt_tokens:
        return replace(usage, input_tokens=estimate)
    return usage


def _note(message: MessageUsage, reported: Reported, *, restarted: bool) -> str | None:
    if any(omits_count(reported, name) for name in _NEEDED):
        return UNCOUNTED
    return RESTARTED if restarted else message.note


def id_of(message: Mapping[str, Any], call: ProviderCall) -> MessageId:
    """The id of a message; `UNNAMED` if the provider sent none."""
    found = _identifier(message.get("id")) or call.provider_request_id
    if found is None:
        log.error("gateway.message_without_id", model=model_of(message, {}))
        return UNNAMED
    return MessageId(found)


def model_of(message: Mapping[str, Any], reported: Reported) -> str:
    """The model that served a message."""
    return served_by(reported) or _identifier(message.get("model")) or UNKNOWN_MODEL


def _parsed(data: bytes) -> Any:
    if count_parts(data) > MOST_PARTS:
        return None
    try:
        # Agents replace what is no UTF-8, too: it must not hide the numbers beside it.
        return _DECODER.decode(data.removeprefix(b"\xef\xbb\xbf").decode(errors="replace"))
    except (ValueError, RecursionError):
        return None


def _int(digits: str) -> int | str:
    # Python refuses to parse numbers of thousands of digits, and with them the whole event.
    return int(digits) if len(digits) <= _MOST_DIGITS else f"{digits[:_MOST_DIGITS]}..."


def _float(text: str) -> float | str:
    # What no number can hold stays visible: as an infinity it could not be stored.
    number = float(text)
    return number if math.isfinite(number) else text[:_MOST_DIGITS]


_DECODER = json.JSONDecoder(parse_int=_int, parse_float=_float, parse_constant=str)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _identifier(value: Any) -> str | None:
    """An id that can be stored anywhere."""
    return None if (text := _text(value)) is None else identifier(text)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
