"""Usage objects of the Messages API, with every part that the official client's types know; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

ServiceTier = Literal["standard", "priority", "batch"]
Speed = Literal["standard", "fast"]
IterationType = Literal["message", "compaction", "advisor_message", "fallback_message"]
FallbackCredit = Literal["redeemed", "not_applied"]

IN_DELTA = {
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens_details",
    "server_tool_use",
    "iterations",
    "fallback_credit",
}
"""What the API reports again in `message_delta`; the rest comes with `message_start` only."""


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens of a message or of one iteration."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0

    def to_json(self) -> dict[str, Any]:
        """The counts as the API reports them."""
        return {
            "input_tokens": self.input,
            "output_tokens": self.output,
            "cache_read_input_tokens": self.cache_read,
            "cache_creation_input_tokens": self.cache_write_5m + self.cache_write_1h,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.cache_write_5m,
                "ephemeral_1h_input_tokens": self.cache_write_1h,
            },
        }


@dataclass(frozen=True, slots=True)
class Iteration:
    """One entry of `iterations`; compaction and advisor are not part of the message's own counts."""

    type: IterationType
    counts: TokenCounts
    model: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The entry as the API reports it."""
        named = {} if self.model is None else {"model": self.model}
        return {"type": self.type, **self.counts.to_json(), **named}


@dataclass(frozen=True, slots=True)
class UsageObject:
    """The usage of one message."""

    counts: TokenCounts
    inference_geo: str | None = None
    service_tier: ServiceTier | str | None = None
    speed: Speed | str | None = None
    thinking_tokens: int | None = None
    server_tools: Mapping[str, int] = field(default_factory=dict)
    """Uses of the provider's own tools, by the counter's name: `web_search_requests`, …"""
    iterations: Sequence[Iteration] = ()
    fallback_credit: FallbackCredit | None = None
    others: Mapping[str, Any] = field(default_factory=dict)
    """Keys that the official client does not know."""

    def to_json(self) -> dict[str, Any]:
        """The whole object, as in an answer that is not streamed."""
        return {
            **self.counts.to_json(),
            "inference_geo": self.inference_geo,
            "service_tier": self.service_tier,
            "speed": self.speed,
            "output_tokens_details": _unless_none(self.thinking_tokens, "thinking_tokens"),
            "server_tool_use": self._server_tool_use(),
            "iterations": [each.to_json() for each in self.iterations] or None,
            "fallback_credit": self._credit(),
            **self.others,
        }

    def started(self) -> dict[str, Any]:
        """The object in `message_start`: one token of output, and nothing that only the end can know."""
        late = {*IN_DELTA, *self.others} - {*self.counts.to_json()}
        early = {name: value for name, value in self.to_json().items() if name not in late}
        return {**early, "output_tokens": min(1, self.counts.output)}

    def ended(self) -> dict[str, Any]:
        """The object in `message_delta`."""
        kept = IN_DELTA | {*self.others}
        return {name: value for name, value in self.to_json().items() if name in kept}

    def _server_tool_use(self) -> dict[str, int] | None:
        if not self.server_tools:
            return None
        return {"web_search_requests": 0, "web_fetch_requests": 0, **self.server_tools}

    def _credit(self) -> dict[str, Any] | None:
        if self.fallback_credit is None:
            return None
        reason = {"reason": "expired"} if self.fallback_credit == "not_applied" else {}
        return {"status": {"type": self.fallback_credit, **reason}}


def _unless_none(value: int | None, name: str) -> dict[str, int] | None:
    return None if value is None else {name: value}
