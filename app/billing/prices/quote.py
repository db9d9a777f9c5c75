"""quote: what a message costs, line by line; pure.

The lines of a quote add up to its cost, so that a receipt can be checked by hand. What has no known price
is listed instead of being charged as if it did not matter.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from math import prod
from typing import Any, NamedTuple

from app.billing.prices.model_price import ModelPrice
from app.billing.prices.usage_reading import ADVISOR, Dimension, PricedPart, UsageReading, read_usage
from app.usage.provider import Reported
from app.usage.records import TokenUsage, UsageFact

_FIELDS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_tokens",
    "cache_write_5m": "cache_write_5m_tokens",
    "cache_write_1h": "cache_write_1h_tokens",
}


@dataclass(frozen=True, slots=True)
class BilledUsage:
    """The usage of one message, as it is priced."""

    model: str
    """The model that served it."""
    usage: TokenUsage
    """The counts of the message; its output may be estimated."""
    reported: Reported = field(default_factory=dict)
    """The provider's usage object."""
    requested_model: str | None = None
    stop_reason: str | None = None
    missed_tokens: int = 0
    """Tokens that should have been read from the cache."""

    @classmethod
    def of(cls, fact: UsageFact) -> "BilledUsage":
        return cls(
            fact.model,
            fact.usage,
            fact.reported,
            requested_model=fact.call.requested_model,
            stop_reason=fact.stop_reason,
            missed_tokens=0 if fact.cache_miss is None else fact.cache_miss.missed_tokens,
        )

    @property
    def is_free(self) -> bool:
        """Whether the provider charges nothing: it refused before any output."""
        return self.stop_reason == "refusal" and not self.usage.output_tokens


class PriceLine(NamedTuple):
    """One thing that is charged: `quantity` times `unit_price_usd`."""

    part: str
    """`message`, or the type of an iteration that is charged apart."""
    kind: str
    """A kind of token, a counter of the provider's tools, or a factor, such as `inference_geo:us`."""
    model: str
    quantity: Decimal
    """Tokens or uses; of a factor, the dollars that it multiplies."""
    unit_price_usd: Decimal
    """Of a factor, the factor minus 1."""

    @property
    def amount_usd(self) -> Decimal:
        """Exact dollars."""
        return self.quantity * self.unit_price_usd

    def to_json(self) -> dict[str, str]:
        """The line with exact decimals as text."""
        return {
            "part": self.part,
            "kind": self.kind,
            "model": self.model,
            "quantity": plain(self.quantity),
            "unit_price_usd": plain(self.unit_price_usd),
            "amount_usd": plain(self.amount_usd),
        }


@dataclass(frozen=True, slots=True)
class Quote:
    """The exact price of a message."""

    lines: tuple[PriceLine, ...]
    unpriced: tuple[str, ...]
    """What has no known price, as `name=value`; empty if the price is complete."""
    version: str
    cache_savings_usd: Decimal = Decimal(0)
    """What the cache reads would have cost more as plain input."""
    cache_miss_usd: Decimal = Decimal(0)
    """What the missed tokens would have cost less as cache reads."""

    @property
    def cost_usd(self) -> Decimal:
        """The sum of the lines, exact."""
        return sum((line.amount_usd for line in self.lines), Decimal(0))


PriceOf = Callable[[str], ModelPrice | None]
"""The price of a model at the moment of the message."""


def quote(message: BilledUsage, price_of: PriceOf, *, unknown_version: str) -> Quote:
    """Price a message; `unknown_version` names the price list if the model has no price."""
    reading = read_usage(message.model, message.usage, message.reported)
    unpriced = list(reading.unknown)
    price = price_of(message.model)
    version = unknown_version if price is None else price.version
    if message.is_free:
        return Quote((), (), version)
    lines: list[PriceLine] = []
    savings = missed = Decimal(0)
    for number, part in enumerate(reading.parts):
        part_price = price if part.model == message.model else price_of(part.model)
        if part_price is None:
            unpriced.append(f"model={part.model}")
            continue
        factors, missing = _factors(part, part_price, reading.factors)
        unpriced += missing
        if not missing:
            tokens = list(token_lines(part.model, part.usage, part_price, part=part.name))
            lines += [*tokens, *_factor_lines(part, tokens, factors)]
            savings += _savings(part, part_price, factors)
            # What follows in the same message reads what the first part has written.
            if number == 0 and message.missed_tokens:
                missed = _miss_cost(part, part_price, factors, message.missed_tokens)
    lines += _tool_lines(message.model, price, reading, unpriced)
    return Quote(tuple(lines), tuple(dict.fromkeys(unpriced)), version, savings, missed)


def token_lines(
    model: str, usage: TokenUsage, price: ModelPrice, *, part: str = "message"
) -> Iterator[PriceLine]:
    """The price of each kind of token."""
    prompt = usage.prompt_tokens
    for kind, name in _FIELDS.items():
        if tokens := getattr(usage, name):
            yield PriceLine(part, kind, model, Decimal(tokens), price.rate(kind).per_token(prompt))


def plain(value: Decimal) -> str:
    """A decimal without exponent and without trailing zeros."""
    text = str(value)
    if "E" in text:
        text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _factors(
    part: PricedPart, price: ModelPrice, reported: Mapping[Dimension, str]
) -> tuple[dict[str, Decimal], list[str]]:
    """The factors of a part by `dimension:value`, and those that are not known."""
    known: dict[str, Decimal] = {}
    missing: list[str] = []
    for dimension, value in reported.items():
        if dimension == "speed" and part.name == ADVISOR:
            # The speed is that of the model that was asked; an advisor is another one.
            continue
        factor = price.factor(dimension, value)
        if factor is None:
            missing.append(f"{dimension}={value}")
        elif factor != 1:
            known[f"{dimension}:{value}"] = factor
    return known, missing


def _factor_lines(
    part: PricedPart, tokens: list[PriceLine], factors: Mapping[str, Decimal]
) -> Iterator[PriceLine]:
    dollars = sum((line.amount_usd for line in tokens), Decimal(0))
    for name, factor in factors.items():
        if dollars:
            line = PriceLine(part.name, name, part.model, dollars, factor - 1)
            yield line
            dollars += line.amount_usd


def _savings(part: PricedPart, price: ModelPrice, factors: Mapping[str, Decimal]) -> Decimal:
    prompt = part.usage.prompt_tokens
    saved = price.input.per_token(prompt) - price.cache_read.per_token(prompt)
    return part.usage.cache_read_tokens * saved * prod(factors.values())


def _miss_cost(
    part: PricedPart, price: ModelPrice, factors: Mapping[str, Decimal], missed_tokens: int
) -> Decimal:
    """The missed tokens were written to the cache again, the rest of them read as plain input."""
    prompt, left = part.usage.prompt_tokens, missed_tokens
    dollars = Decimal(0)
    for kind in ("cache_write_1h", "cache_write_5m", "input"):
        tokens = min(left, getattr(part.usage, _FIELDS[kind]))
        more = price.rate(kind).per_token(prompt) - price.cache_read.per_token(prompt)
        dollars += tokens * more
        left -= tokens
    return dollars * prod(factors.values())


def _tool_lines(
    model: str, price: ModelPrice | None, reading: UsageReading, unpriced: list[str]
) -> Iterator[PriceLine]:
    for name, uses in reading.server_tools.items():
        per_use: Any = None if price is None else price.extras.server_tools.get(name)
        if per_use is None:
            unpriced.append(f"{name}={uses}")
        else:
            yield PriceLine("message", name, model, Decimal(uses), per_use)
