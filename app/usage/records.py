"""Token usage of messages and runs. Prices are in billing/prices/price_list.py."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal
from uuid import UUID

from app.ids import ApiKeyId, MessageId, RunKey

Basis = Literal["final", "partial", "recovered"]
"""How complete the numbers are: the API's final ones, of a message cut off, or recovered after a crash."""

Origin = Literal["assistant", "subagent", "hidden"]
"""What caused the message: the main agent, a subagent, or a call that no SDK message shows."""

ExecutorType = Literal["claude_sdk", "messages_api", "external"]
"""What made the call; `external`: an agent of a client."""

WebTool = Literal["web_search", "web_fetch"]
"""The provider's tools for the web, by their names."""

SOURCE_SYSTEM = "anthropic_sdk"

BYTES_PER_TOKEN = 4
"""An approximation, used for messages that were cut off."""

UNKNOWN_MODEL = "unknown"
"""Has no price, so it raises an alarm."""


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

    @property
    def cache_written_tokens(self) -> int:
        """Cache writes of every lifetime."""
        return self.cache_write_5m_tokens + self.cache_write_1h_tokens

    def plus(self, other: "TokenUsage") -> "TokenUsage":
        """Both together."""
        names = [each.name for each in fields(self)]
        return TokenUsage(**{name: getattr(self, name) + getattr(other, name) for name in names})


@dataclass(frozen=True, slots=True)
class Attribution:
    """Whom and what a run's receipts name as the cause of the charge."""

    api_key_id: ApiKeyId
    graph_id: str
    ingress_request_id: str | None
    end_user: str | None = None
    tags: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class ProviderCall:
    """What the provider says about the call that a message is the answer of."""

    requested_model: str | None = None
    """The name in the request; the provider may serve a dated release, or another model."""
    provider_request_id: str | None = None
    provider_organization_id: str | None = None
    provider_workspace_id: str | None = None


MissCause = Literal["model", "changed", "parameters", "expired", "too_far", "not_found"]
"""Why the provider did not find a prompt in its cache:

* `model`: another model was requested,
* `changed`: a part of the prompt before the last mark changed,
* `parameters`: another option of the request changed, such as `thinking` or `tool_choice`,
* `expired`: the entry's time to live had passed,
* `too_far`: more content blocks were added than the provider looks back,
* `not_found`: nothing changed; the provider did not keep the entry.
"""


@dataclass(frozen=True, slots=True)
class CacheMiss:
    """Tokens that the request before had in the provider's cache, and that were not read from it."""

    cause: MissCause
    part: str | None
    """The first part of the prompt that changed, for example `messages[4]`."""
    expected_tokens: int
    """What was cached: read or written by the request before."""
    read_tokens: int
    idle_s: int
    """Seconds since the request before."""

    @property
    def missed_tokens(self) -> int:
        """Tokens that were charged at more than the price of a cache read."""
        return self.expected_tokens - self.read_tokens


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
    reported: Mapping[str, Any] = field(default_factory=dict)
    """The provider's whole usage object; empty if it reported none."""
    call: ProviderCall = field(default_factory=ProviderCall)
    stop_reason: str | None = None
    basis: Basis = "final"
    output_estimated: bool = False
    origin: Origin = "assistant"
    parent_tool_call_id: str | None = None
    note: str | None = None
    """Anything unusual about it, for readers of the receipt."""
    cache_miss: CacheMiss | None = None
    """What the provider should have found in its cache, if it did not."""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    """When the message began; it is charged at the price of that moment, and to that month's budget."""

    @property
    def source_reference(self) -> str:
        """The idempotency key: unique together with the account and the source system."""
        return f"{self.run.run_id}/{self.attempt}/{self.message_id}"

    @property
    def key(self) -> str:
        """Unique over all accounts; contains no space."""
        return f"{_text_of(self.run.account_id)}/{self.source_reference}"


@dataclass(frozen=True, slots=True)
class CostComparison:
    """What a run cost at list prices by both meters: without an operator's prices and the markup."""

    measured_usd: Decimal
    """Of the measured messages."""
    sdk_usd: Decimal | None = None
    """The SDK's own total; None if it does not contain exactly these messages."""
    explained_usd: Decimal = Decimal(0)
    """What the SDK is known not to count, so that the measured cost is higher (or lower) by it."""
    drift_usd: Decimal | None = None
    """The rest of the difference; None if the two cannot be compared."""
    notes: tuple[str, ...] = ()
    """What the SDK does not count, or why the two cannot be compared."""

    def plus(self, other: "CostComparison") -> "CostComparison":
        """This part of a run and another one, together."""
        return CostComparison(
            self.measured_usd + other.measured_usd,
            _sum_of(self.sdk_usd, other.sdk_usd),
            self.explained_usd + other.explained_usd,
            _sum_of(self.drift_usd, other.drift_usd),
            tuple(dict.fromkeys(self.notes + other.notes)),
        )


@dataclass(frozen=True, slots=True)
class Meters:
    """How many messages of a run each meter counted, and for how many they disagreed."""

    sdk: int
    gateway: int
    drift: int
    cost: CostComparison | None = None

    def plus(self, other: "Meters") -> "Meters":
        """This part of a run and another one, together; one without messages has no cost."""
        costs = [meters.cost for meters in (self, other) if meters.cost is not None]
        return Meters(
            self.sdk + other.sdk,
            self.gateway + other.gateway,
            self.drift + other.drift,
            costs[0].plus(costs[1]) if len(costs) > 1 else next(iter(costs), None),
        )


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """Usage as shown to clients: tokens in and out, never money."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def plus(self, usage: TokenUsage) -> "UsageTotal":
        return UsageTotal(
            self.prompt_tokens + usage.prompt_tokens,
            self.completion_tokens + usage.output_tokens,
            self.cache_read_tokens + usage.cache_read_tokens,
            self.cache_write_tokens + usage.cache_written_tokens,
        )


@dataclass(frozen=True, slots=True)
class ChargedUsage:
    """Messages that are charged, all together."""

    messages: int = 0
    """Receipts: also those of what a message used more than was charged for it at first."""
    tokens: TokenUsage = field(default_factory=TokenUsage)
    cost_usd: Decimal = Decimal(0)

    def plus(self, tokens: TokenUsage, cost_usd: Decimal, *, messages: int = 1) -> "ChargedUsage":
        """These and more messages."""
        return ChargedUsage(self.messages + messages, self.tokens.plus(tokens), self.cost_usd + cost_usd)


NOTHING_CHARGED = ChargedUsage()


@dataclass(frozen=True, slots=True)
class Spent:
    """What earlier attempts of a run have used up of its limits."""

    usage: UsageTotal = field(default_factory=UsageTotal)
    total_tokens: int = 0
    """What `maxTotalTokens` limits."""
    cost_usd: Decimal = Decimal(0)
    turns: int = 0
    charged: ChargedUsage = NOTHING_CHARGED
    """The same messages, by kind of token."""
    web_uses: Mapping[WebTool, int] = field(default_factory=dict)


NOTHING_SPENT = Spent()


def _sum_of(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    """None if one is not known."""
    return None if one is None or other is None else one + other


def parse_key(key: str) -> tuple[UUID, str]:
    """The account and the source reference in `UsageFact.key`."""
    account_id, _, source_reference = key.partition("/")
    return UUID(account_id), source_reference


@lru_cache(maxsize=4096)
def _text_of(account_id: UUID) -> str:
    return str(account_id)


def estimated_tokens(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)
