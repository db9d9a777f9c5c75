"""What a message used, in tokens. No prices here: see billing/pricing.py."""

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
"""How complete the numbers are: the API's last number, a message cut off, found after a crash."""

Origin = Literal["assistant", "subagent", "hidden"]
"""Who caused the message: the main thread, a subagent, or a call no SDK message shows."""

ExecutorType = Literal["claude_sdk", "messages_api"]

SOURCE_SYSTEM = "anthropic_sdk"

BYTES_PER_TOKEN = 4
"""About; used to count what arrived of a message that was cut off."""

UNKNOWN_MODEL = "unknown"
"""Has no price, so somebody will look."""

MOST_TOKENS = 1_000_000_000
"""Of one message and one kind: beyond any context window, far below what sums can hold."""

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
    """Token counts of one message, by what each kind costs. The kinds do not overlap."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    web_search_requests: int = 0

    @property
    def prompt_tokens(self) -> int:
        """Everything that went in: input, cache reads and cache writes."""
        return (
            self.input_tokens
            + self.cache_read_tokens
            + self.cache_write_5m_tokens
            + self.cache_write_1h_tokens
        )

    @property
    def total_tokens(self) -> int:
        """Everything that `maxTotalTokens` counts."""
        return self.prompt_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Attribution:
    """Whom and what a run's receipts name besides the usage itself."""

    api_key_id: ApiKeyId
    graph_id: str
    ingress_request_id: str | None


@dataclass(frozen=True, slots=True)
class UsageFact:
    """What one assistant message used: the unit of billing, stated exactly once."""

    run: RunKey
    attempt: int
    message_id: MessageId
    attribution: Attribution
    model: str
    """The model that served the message, not the one asked for."""
    usage: TokenUsage
    executor_type: ExecutorType
    basis: Basis = "final"
    output_estimated: bool = False
    origin: Origin = "assistant"
    parent_tool_call_id: str | None = None
    note: str | None = None
    """What is unusual about it, in words for whoever reads its receipt."""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    """When the message was heard: its price is the price of that moment."""

    @property
    def source_reference(self) -> str:
        """The idempotency key: unique together with the account and the source system."""
        return f"{self.run.run_id}/{self.attempt}/{self.message_id}"

    @property
    def key(self) -> str:
        """The same for all accounts together; holds no space."""
        return f"{self.run.account_id}/{self.source_reference}"


@dataclass(frozen=True, slots=True)
class Meters:
    """How many messages of a run each meter saw, and on how many they disagreed."""

    sdk: int
    gateway: int
    drift: int


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """Usage as clients see it: tokens in and out, never money."""

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
    """What earlier attempts of a run have used of its limits."""

    usage: UsageTotal = field(default_factory=UsageTotal)
    total_tokens: int = 0
    """Everything that `maxTotalTokens` counts."""
    cost_usd: Decimal = Decimal(0)
    turns: int = 0


NOTHING_SPENT = Spent()


def counted(usage: Any) -> dict[str, Any]:
    """A usage object of somebody else's as far as it can be counted with; the rest raises an alarm."""
    known: dict[str, Any] = {}
    for name, value in usage.items() if isinstance(usage, dict) else ():
        if name in _OF_COUNTS and isinstance(value, dict):
            known[name] = counted(value)
        elif name in _COUNTS and type(value) is int and 0 <= value <= MOST_TOKENS:
            known[name] = value
        elif name in _COUNTS | _OF_COUNTS and value is not None:
            log.error("a number nobody understands", name=name, value=repr(value)[:_SHOWN_CHARS])
    return known


def merged(start: Mapping[str, Any], delta: Mapping[str, Any]) -> dict[str, Any]:
    """Usage of `message_start` brought up to date by `message_delta`, as the API means it.

    Input and cache counts are replaced by positive values only (a delta may repeat them as null
    or zero); everything else by any value that is not null.
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
    """The API's usage object in our words; cache writes without a breakdown count as 5-minute."""
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
    """About how many tokens a text has, where nobody who knows can be asked."""
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)
