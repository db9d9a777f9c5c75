"""PriceList: what a message of any model costs; the prices of one model are in `model_price`; pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_HALF_UP, Decimal

from app.billing.prices.library import (
    LIBRARY_VERSION,
    library_models,
    library_name,
    library_price,
    model_key,
    release_key,
)
from app.billing.prices.model_names import is_alias
from app.billing.prices.model_price import DatedFactors, Factors, ModelPrice, OperatorPrice
from app.billing.prices.price_file import shipped_factors
from app.billing.prices.quote import BilledUsage, PriceLine, Quote, quote, token_lines
from app.usage.records import TokenUsage

CREDITS_PER_DOLLAR = 10_000_000

NO_VERSION = "none"
"""The price version of a message whose model has no price."""

_COST_STEP = Decimal("0.0000000001")


class UnknownPrice(LookupError):
    """There is no price for this model."""


@dataclass(frozen=True, slots=True)
class Charge:
    """The charge for one message."""

    cost_usd: Decimal
    """The provider's price, to ten decimals."""
    charged_credits: int
    price_version: str
    cache_savings_usd: Decimal = Decimal(0)
    """Saved by cache reads compared with plain input at the provider's price, to ten decimals."""
    cache_miss_usd: Decimal = Decimal(0)
    """The cost of a miss of the cache compared with a cache read, to ten decimals."""
    lines: tuple[PriceLine, ...] = ()
    """What the cost consists of, exact."""
    unpriced: tuple[str, ...] = ()
    """What has no known price, as `name=value`, and is not part of the cost."""


class PriceList:
    """Looks up the prices of a model at a moment: an operator's own, else those of the library."""

    def __init__(
        self,
        operator_prices: Sequence[OperatorPrice] = (),
        *,
        operator_factors: Sequence[DatedFactors] = (),
        markup: Decimal = Decimal(1),
    ) -> None:
        """Operator's prices and factors take precedence; charges are the cost times `markup`."""
        self._markup = markup
        # By one name for each release: an operator may have written another one than the provider.
        own = [replace(entry, model=release_key(entry.model)) for entry in operator_prices]
        self._operator_prices = sorted(own, key=lambda price: price.since, reverse=True)
        self._factors = sorted(shipped_factors(), key=lambda each: each.since)
        self._operator_factors = sorted(operator_factors, key=lambda each: each.since)
        self._changes = sorted({each.since for each in (*self._factors, *operator_factors)})
        self._complete: dict[tuple[str, int, int], ModelPrice] = {}

    def price_of(self, model: str, *, at: datetime, requested: str | None = None) -> ModelPrice:
        """The price of a model at a moment; raises `UnknownPrice`.

        `requested` is the name that the model was requested by: an operator may have priced that one.
        """
        for name in _operator_names(model, requested):
            for entry in self._operator_prices:
                if entry.model == name and entry.since <= at:
                    return self._completed(model, entry.price, at=at)
        known = library_name(model)
        listed = None if known is None else library_price(known, at=at)
        if listed is None:
            raise UnknownPrice
        return self._completed(model, listed, at=at)

    def find_price(self, model: str, *, at: datetime, requested: str | None = None) -> ModelPrice | None:
        try:
            return self.price_of(model, at=at, requested=requested)
        except UnknownPrice:
            return None

    def is_priced(self, model: str, *, at: datetime) -> bool:
        return self.find_price(model, at=at) is not None

    def priced_models(self) -> list[str]:
        """The names of all models with a price, without release dates."""
        own = {entry.model for entry in self._operator_prices}
        return sorted(own | set(library_models()))

    def quote(self, message: BilledUsage, *, at: datetime) -> Quote:
        """The exact price of a message at a moment, line by line."""

        def price_of(model: str) -> ModelPrice | None:
            requested = message.requested_model if model == message.model else None
            return self.find_price(model, at=at, requested=requested)

        return quote(message, price_of, unknown_version=NO_VERSION)

    def charge(self, message: BilledUsage, *, at: datetime) -> Charge:
        """The charge for a message; what has no price is not charged but listed."""
        quoted = self.quote(message, at=at)
        cost_usd = quoted.cost_usd
        return Charge(
            cost_usd=rounded(cost_usd),
            charged_credits=self.credits_for(cost_usd),
            price_version=quoted.version,
            cache_savings_usd=rounded(quoted.cache_savings_usd),
            cache_miss_usd=rounded(quoted.cache_miss_usd),
            lines=quoted.lines,
            unpriced=quoted.unpriced,
        )

    def most(self, model: str, usage: TokenUsage, *, at: datetime, speed: str | None = None) -> Decimal:
        """Dollars that no message of these counts exceeds; raises `UnknownPrice`.

        All factors are taken at their largest. `speed` is the one that the request asks for, if any. Any
        release of the model may answer, also one that has a price of its own.
        """
        releases = {
            entry.model for entry in self._operator_prices if model_key(entry.model) == model_key(model)
        }
        prices = [self.price_of(model, at=at), *(self.find_price(each, at=at) for each in releases)]
        return max(_most(model, usage, price, speed=speed) for price in prices if price is not None)

    def credits_at_most(self, message: BilledUsage, *, at: datetime) -> int:
        """Credits for a message; if a part of it has no known price, the most that it may cost."""
        quoted = self.quote(message, at=at)
        if not quoted.unpriced:
            return self.credits_for(quoted.cost_usd)
        speed = message.reported.get("speed")
        named = [
            name for name in (message.model, message.requested_model) if name and self.is_priced(name, at=at)
        ]
        # Of an unknown model, the price of the dearest one.
        names = named[:1] or [name for name in self.priced_models() if self.is_priced(name, at=at)]
        most = (self.most(name, message.usage, at=at, speed=speed) for name in names)
        return self.credits_for(max(most, default=quoted.cost_usd).max(quoted.cost_usd))

    def credits_for(self, cost_usd: Decimal) -> int:
        """Credits for an exact cost, rounded up once."""
        exact = cost_usd * self._markup * CREDITS_PER_DOLLAR
        return int(exact.to_integral_value(ROUND_CEILING))

    def _completed(self, model: str, price: ModelPrice, *, at: datetime) -> ModelPrice:
        """The price with the factors of its model at a moment."""
        name = model_key(model)
        period = sum(since <= at for since in self._changes)
        # The price objects live as long as this list, so their ids are unique.
        key = (name, period, id(price))
        if (complete := self._complete.get(key)) is None:
            shipped = _applying(self._factors, name, at)
            own = _applying(self._operator_factors, name, at)
            extras = shipped.overridden_by(price.extras) if price.version == LIBRARY_VERSION else shipped
            extras = extras.overridden_by(own)
            if price.version != LIBRARY_VERSION:
                extras = extras.overridden_by(price.extras)
            complete = self._complete[key] = replace(
                price, version=self._version(price, name, at), extras=extras
            )
        return complete

    def _version(self, price: ModelPrice, name: str, at: datetime) -> str:
        """The lists of a price: that of its rates, and the file whose factors apply, if it is another one."""
        own = {each.version for each in self._operator_factors if each.applies_to(name, at=at)}
        return ", ".join([price.version, *sorted(own - {price.version})])


def _most(model: str, usage: TokenUsage, price: ModelPrice, *, speed: str | None) -> Decimal:
    prompt = usage.prompt_tokens
    tokens = sum(
        (
            line.quantity * price.most_per_token(line.kind, prompt)
            for line in token_lines(model, usage, price)
        ),
        Decimal(0),
    )
    searches = usage.web_search_requests * (price.web_search or 0)
    return tokens * price.largest_factor(speed=speed) + searches


def rounded(dollars: Decimal) -> Decimal:
    return dollars.quantize(_COST_STEP, ROUND_HALF_UP)


def _operator_names(model: str, requested: str | None) -> Iterator[str]:
    """The names by which an operator may have priced a served model, the most specific first."""
    yield release_key(model)
    yield model_key(model)
    if requested is not None and is_alias(requested, of=model):
        yield release_key(requested)


def _applying(entries: Sequence[DatedFactors], name: str, at: datetime) -> Factors:
    factors = Factors()
    for entry in entries:
        if entry.applies_to(name, at=at):
            factors = factors.overridden_by(entry.factors)
    return factors
