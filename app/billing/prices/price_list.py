"""PriceList: the cost of token usage, in `Decimal`; pure.

The prices come from genai-prices (offline, with effective dates), which only this module imports. An
operator's own prices, read by `price_file.py`, take precedence.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Any

import genai_prices
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import TieredPrices

from app.usage import TokenUsage

CREDITS_PER_DOLLAR = 10_000_000
WEB_SEARCH_USD = Decimal("0.01")
"""The price of a web search if a price list has none."""

LIBRARY_VERSION = f"genai-prices {genai_prices.__version__}"

_COST_STEP = Decimal("0.0000000001")
_MODELS = 256
_MILLION = Decimal(1_000_000)
_THOUSAND = Decimal(1_000)
_PREFIX = re.compile(r"^anthropic/")
_SUFFIX = re.compile(r"\[1m\]$")


class UnknownPrice(LookupError):
    """There is no price for this model."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Dollars per million tokens of one kind."""

    base: Decimal
    tiers: tuple[tuple[int, Decimal], ...] = ()
    """Ascending (prompt tokens, rate): above so many prompt tokens, all tokens of the message cost `rate`."""

    def at(self, prompt_tokens: int) -> Decimal:
        """The rate of a message with so many prompt tokens."""
        for above, rate in reversed(self.tiers):
            if prompt_tokens > above:
                return rate
        return self.base


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """The price of each kind of token of a model."""

    version: str
    """The price list it comes from; stored with every receipt."""
    input: Rate
    output: Rate
    cache_read: Rate
    cache_write_5m: Rate
    cache_write_1h: Rate
    web_search: Decimal = WEB_SEARCH_USD
    """Dollars per search."""

    def cost_of(self, usage: TokenUsage) -> Decimal:
        """The exact price of a message in dollars."""
        prompt = usage.prompt_tokens
        tokens = (
            usage.input_tokens * self.input.at(prompt)
            + usage.output_tokens * self.output.at(prompt)
            + usage.cache_read_tokens * self.cache_read.at(prompt)
            + usage.cache_write_5m_tokens * self.cache_write_5m.at(prompt)
            + usage.cache_write_1h_tokens * self.cache_write_1h.at(prompt)
        )
        return tokens / _MILLION + usage.web_search_requests * self.web_search

    def cache_savings_of(self, usage: TokenUsage) -> Decimal:
        """What the message's cache reads would have cost more as plain input: dollars, exact."""
        prompt = usage.prompt_tokens
        return usage.cache_read_tokens * (self.input.at(prompt) - self.cache_read.at(prompt)) / _MILLION


@dataclass(frozen=True, slots=True)
class OperatorPrice:
    """An operator's price of one model from a moment on."""

    model: str
    since: datetime
    price: ModelPrice


@dataclass(frozen=True, slots=True)
class Charge:
    """The charge for one message."""

    cost_usd: Decimal
    """The provider's price, to ten decimals."""
    charged_credits: int
    price_version: str
    cache_savings_usd: Decimal = Decimal(0)
    """Saved by cache reads compared with plain input at the provider's price, to ten decimals."""


class PriceList:
    """Looks up the price of a model at a moment."""

    def __init__(
        self, operator_prices: Sequence[OperatorPrice] = (), *, markup: Decimal = Decimal(1)
    ) -> None:
        """`operator_prices` take precedence over the library's; charges are the cost times `markup`."""
        self._markup = markup
        self._operator_prices = sorted(operator_prices, key=lambda price: price.since, reverse=True)
        self._compiled: dict[int, ModelPrice] = {}

    def price_of(self, model: str, *, at: datetime) -> ModelPrice:
        """The price of a model at a moment; raises `UnknownPrice`."""
        name = _SUFFIX.sub("", _PREFIX.sub("", model))
        for operator_price in self._operator_prices:
            if operator_price.model == name and operator_price.since <= at:
                return operator_price.price
        if (library_model := _find_library_model(name)) is None:
            raise UnknownPrice
        listed = library_model.get_prices(at)
        # The library's objects live as long as the program, so their ids are unique.
        if (price := self._compiled.get(id(listed))) is None:
            price = self._compiled[id(listed)] = _compile_price(listed)
        return price

    def find_price(self, model: str, *, at: datetime) -> ModelPrice | None:
        """The price of a model at a moment, or None."""
        try:
            return self.price_of(model, at=at)
        except UnknownPrice:
            return None

    def is_priced(self, model: str, *, at: datetime) -> bool:
        """Whether messages of this model can be charged."""
        return self.find_price(model, at=at) is not None

    def charge(self, model: str, usage: TokenUsage, *, at: datetime) -> Charge:
        """The charge for a message; raises `UnknownPrice`."""
        price = self.price_of(model, at=at)
        cost = price.cost_of(usage)
        return Charge(
            cost_usd=_rounded(cost),
            charged_credits=self.credits_for(cost),
            price_version=price.version,
            cache_savings_usd=_rounded(price.cache_savings_of(usage)),
        )

    def credits_for(self, cost_usd: Decimal) -> int:
        """Credits for an exact cost, rounded up once."""
        exact = cost_usd * self._markup * CREDITS_PER_DOLLAR
        return int(exact.to_integral_value(ROUND_CEILING))


@lru_cache(maxsize=_MODELS)
def _find_library_model(name: str) -> Any:
    """The library's entry of a model, or None; cached, because the lookup is slow."""
    try:
        return get_snapshot().find_provider_model(name, None, "anthropic", None)[1]
    except LookupError:
        return None


def _rounded(dollars: Decimal) -> Decimal:
    return dollars.quantize(_COST_STEP, ROUND_HALF_UP)


def _compile_price(listed: Any) -> ModelPrice:
    plain, output = listed.input_mtok, listed.output_mtok
    if plain is None or output is None:
        raise UnknownPrice
    per_thousand_searches = listed.web_searches_kcount
    # A kind without a price of its own costs as much as plain input.
    written = plain if listed.cache_write_mtok is None else listed.cache_write_mtok
    read = plain if listed.cache_read_mtok is None else listed.cache_read_mtok
    kept = written if listed.cache_write_1h_mtok is None else listed.cache_write_1h_mtok
    return ModelPrice(
        version=LIBRARY_VERSION,
        input=_rate(plain),
        output=_rate(output),
        cache_read=_rate(read),
        cache_write_5m=_rate(written),
        cache_write_1h=_rate(kept),
        web_search=WEB_SEARCH_USD if per_thousand_searches is None else per_thousand_searches / _THOUSAND,
    )


def _rate(price: Decimal | TieredPrices) -> Rate:
    if isinstance(price, TieredPrices):
        return Rate(price.base, tuple((tier.start, tier.price) for tier in price.tiers))
    return Rate(price)
