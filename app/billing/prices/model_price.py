"""ModelPrice: every price of one model, in dollars; what a message costs: `price_list`; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from app.billing.prices.usage_reading import Dimension

FactorTable = Mapping[Dimension, Mapping[str, Decimal]]
"""By dimension and the value the provider reports: what the prices of tokens are multiplied by."""

_MILLION = Decimal(1_000_000)

PROMPT_KINDS = ("input", "cache_read", "cache_write_5m", "cache_write_1h")

_MAY_COST_AS: Mapping[str, Sequence[str]] = {
    "input": ("input", "cache_read"),
    "cache_write_5m": ("input", "cache_read", "cache_write_5m"),
    "cache_write_1h": PROMPT_KINDS,
}
"""Tokens of a request by the dearest kind that it asks for; those of an answer have the kind it reports."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Dollars per million tokens of one kind."""

    base: Decimal
    tiers: tuple[tuple[int, Decimal], ...] = ()
    """Ascending (prompt tokens, rate): above so many prompt tokens, all tokens of the message cost `rate`."""

    def at(self, prompt_tokens: int) -> Decimal:
        for above, rate in reversed(self.tiers):
            if prompt_tokens > above:
                return rate
        return self.base

    def most_at(self, prompt_tokens: int) -> Decimal:
        """The highest rate of a message with at most so many prompt tokens."""
        return max([self.base, *(rate for above, rate in self.tiers if prompt_tokens > above)])

    def per_token(self, prompt_tokens: int) -> Decimal:
        return self.at(prompt_tokens) / _MILLION


@dataclass(frozen=True, slots=True)
class Factors:
    """What multiplies the token prices of a model, and the prices of the provider's own tools."""

    factors: FactorTable = field(default_factory=dict)
    server_tools: Mapping[str, Decimal] = field(default_factory=dict)
    """Dollars per use, by the name of the counter."""

    def overridden_by(self, other: "Factors") -> "Factors":
        """These with the values of `other` over them."""
        names = {*self.factors, *other.factors}
        factors = {name: {**self.factors.get(name, {}), **other.factors.get(name, {})} for name in names}
        return Factors(factors, {**self.server_tools, **other.server_tools})


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """The prices of a model from one moment on."""

    version: str
    """The price list it comes from; stored with every receipt."""
    input: Rate
    output: Rate
    cache_read: Rate
    cache_write_5m: Rate
    cache_write_1h: Rate
    extras: Factors = field(default_factory=Factors)

    @property
    def web_search(self) -> Decimal | None:
        return self.extras.server_tools.get("web_search_requests")

    def rate(self, kind: str) -> Rate:
        rate: Rate = getattr(self, kind)
        return rate

    def most_per_token(self, kind: str, prompt_tokens: int) -> Decimal:
        """Dollars that no token of this kind exceeds, nor one that may turn out to be of another kind.

        What a request marks for the cache may be written to it, read from it, or do neither.
        """
        kinds = _MAY_COST_AS.get(kind, (kind,))
        return max(self.rate(each).most_at(prompt_tokens) for each in kinds) / _MILLION

    def factor(self, dimension: Dimension, value: str) -> Decimal | None:
        """What a reported value multiplies token prices by; None if that is not known."""
        return self.extras.factors.get(dimension, {}).get(value)

    def largest_factor(self, *, speed: str | None) -> Decimal:
        """What token prices are multiplied by at most, for a request that asks for this speed.

        The region and the service tier may be the defaults of the operator's workspace.
        """
        product = Decimal(1)
        for dimension, values in self.extras.factors.items():
            if dimension == "speed" and speed is None:
                continue
            product *= max([Decimal(1), *values.values()])
        return product


@dataclass(frozen=True, slots=True)
class DatedFactors:
    """Factors of some models from a moment on."""

    models: frozenset[str]
    """Names without a release date; empty: all models."""
    since: datetime
    factors: Factors
    version: str
    """The list they come from."""

    def applies_to(self, model: str, *, at: datetime) -> bool:
        """Whether messages of this model have these factors at a moment."""
        return self.since <= at and (not self.models or model in self.models)


@dataclass(frozen=True, slots=True)
class OperatorPrice:
    """An operator's price of one model from a moment on."""

    model: str
    since: datetime
    price: ModelPrice
