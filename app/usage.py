"""What a message used, in tokens. No prices here: see billing/pricing.py."""

from dataclasses import dataclass
from typing import Literal

from app.ids import ApiKeyId, MessageId, RunKey

Basis = Literal["final", "partial", "recovered"]
"""How complete the numbers are: the API's last number, a message cut off, found after a crash."""

Origin = Literal["assistant", "subagent", "hidden"]
"""Who caused the message: the main thread, a subagent, or a call no SDK message shows."""

ExecutorType = Literal["claude_sdk", "messages_api"]

SOURCE_SYSTEM = "anthropic_sdk"


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
class UsageFact:
    """What one assistant message used: the unit of billing, stated exactly once."""

    run: RunKey
    attempt: int
    message_id: MessageId
    model: str
    """The model that served the message, not the one asked for."""
    usage: TokenUsage
    executor_type: ExecutorType
    basis: Basis = "final"
    output_estimated: bool = False
    origin: Origin = "assistant"
    parent_tool_call_id: str | None = None

    @property
    def source_reference(self) -> str:
        """The idempotency key: unique together with the source system."""
        return f"{self.run.run_id}/{self.attempt}/{self.message_id}"


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
class Attribution:
    """Whom and what a run's receipts name besides the usage itself."""

    api_key_id: ApiKeyId
    graph_id: str
    ingress_request_id: str | None
