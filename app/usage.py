"""Token usage of messages and runs. Prices are in billing/prices/price_list.py."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal

import structlog

from app.ids import ApiKeyId, MessageId, RunKey

log = structlog.get_logger(__name__)

Basis = Literal["final", "partial", "recovered"]
"""How complete the numbers are: the API's final ones, of a message cut off, or recovered after a crash."""

Origin = Literal["assistant", "subagent", "hidden"]
"""What caused the message: the main agent, a subagent, or a call that no SDK message shows."""

ExecutorType = Literal["claude_sdk", "messages_api"]

SOURCE_SYSTEM = "anthropic_sdk"

BYTES_PER_TOKEN = 4
"""An approximation, used for messages that were cut off."""

UNKNOWN_MODEL = "unknown"
"""Has no price, so it raises an alarm."""

MOST_TOKENS = 1_000_000_000
"""Limit per message and kind: above any context window, far below what sums can hold."""

_COUNTS = {
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "ephemeral_5m_input_tokens",
    "ephemeral_1h_input_tokens",
    "web_search_requests",
}
_OF_COUNTS = {"cache_creation", "server_tool_use"}
_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Token counts of one message by kind. The kinds do not overlap."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    web_search_requests: int = 0

    @property
    def prompt_tokens(self) -> int:
        """Input, cache reads and cache writes."""
        return (
            self.input_tokens
            + self.cache_read_tokens
            + self.cache_write_5m_tokens
            + self.cache_write_1h_tokens
        )

    @property
    def total_tokens(self) -> int:
        """What `maxTotalTokens` limits."""
        return self.prompt_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Attribution:
    """The key, graph and HTTP request that a run's receipts name."""

    api_key_id: ApiKeyId
    graph_id: str
    ingress_request_id: str | None


@dataclass(frozen=True, slots=True)
class UsageFact:
    """The usage of one assistant message: the unit of billing, recorded exactly once."""

    run: RunKey
    attempt: int
    message_id: MessageId
    attribution: Attribution
    model: str
    """The model that served the message, not the requested one."""
    usage: TokenUsage
    executor_type: ExecutorType
    basis: Basis = "final"
    output_estimated: bool = False
    origin: Origin = "assistant"
    parent_tool_call_id: str | None = None
    note: str | None = None
    """Anything unusual about it, for readers of the receipt."""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    """When the message was received; it is charged at the price of that time."""

    @property
    def source_reference(self) -> str:
        """The idempotency key: unique together with the account and the source system."""
        return f"{self.run.run_id}/{self.attempt}/{self.message_id}"

    @property
    def key(self) -> str:
        """Unique over all accounts; contains no space."""
        return f"{self.run.account_id}/{self.source_reference}"


@dataclass(frozen=True, slots=True)
class Meters:
    """How many messages of a run each meter counted, and for how many they disagreed."""

    sdk: int
    gateway: int
    drift: int


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """Usage as shown to clients: tokens in and out, never money."""

    prompt_tokens: int = 0
    completion_tokens: int = 0

    def plus(self, usage: TokenUsage) -> "UsageTotal":
        """This total and one more message."""
        return UsageTotal(
            self.prompt_tokens + usage.prompt_tokens,
            self.completion_tokens + usage.output_tokens,
        )


@dataclass(frozen=True, slots=True)
class Spent:
    """What earlier attempts of a run have used up of its limits."""

    usage: UsageTotal = field(default_factory=UsageTotal)
    total_tokens: int = 0
    """What `maxTotalTokens` limits."""
    cost_usd: Decimal = Decimal(0)
    turns: int = 0


NOTHING_SPENT = Spent()


def counted(usage: Any) -> dict[str, Any]:
    """The valid counts of a provider's usage object; invalid ones are logged and left out."""
    known: dict[str, Any] = {}
    for name, value in usage.items() if isinstance(usage, dict) else ():
        if name in _OF_COUNTS and isinstance(value, dict):
            known[name] = counted(value)
        elif name in _COUNTS and type(value) is int and 0 <= value <= MOST_TOKENS:
            known[name] = value
        elif name in _COUNTS | _OF_COUNTS and value is not None:
            log.error("usage.invalid_count", name=name, value=repr(value)[:_SHOWN_CHARS])
    return known


def merged(start: Mapping[str, Any], delta: Mapping[str, Any]) -> dict[str, Any]:
    """The usage of `message_start` updated with that of a `message_delta`, following the API.

    Input and cache counts are only replaced by positive values (a delta may repeat them as null or
    zero); everything else by any value that is not null.
    """
    usage = dict(start)
    for name, value in delta.items():
        if value is None:
            continue
        if name in {"input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"}:
            if value > 0:
                usage[name] = value
        elif name == "cache_creation":
            if sum(count or 0 for count in value.values()) > 0:
                usage[name] = value
        else:
            usage[name] = value
    return usage


def token_usage(raw: Mapping[str, Any]) -> TokenUsage:
    """The API's usage object as `TokenUsage`; cache writes without a breakdown count as 5-minute."""
    breakdown = raw.get("cache_creation") or {}
    one_hour = breakdown.get("ephemeral_1h_input_tokens") or 0
    five_minutes = breakdown.get("ephemeral_5m_input_tokens") or 0
    written = raw.get("cache_creation_input_tokens")
    if written is not None:
        one_hour = min(one_hour, written)
        five_minutes = written - one_hour
    return TokenUsage(
        input_tokens=raw.get("input_tokens") or 0,
        output_tokens=raw.get("output_tokens") or 0,
        cache_read_tokens=raw.get("cache_read_input_tokens") or 0,
        cache_write_5m_tokens=five_minutes,
        cache_write_1h_tokens=one_hour,
        web_search_requests=(raw.get("server_tool_use") or {}).get("web_search_requests") or 0,
    )


def estimated_tokens(text: str) -> int:
    """The approximate number of tokens of a text."""
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)
