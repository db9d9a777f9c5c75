"""UnitPrices: our prices by the dimensions of the provider's reports; pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from app.billing.prices.model_price import PROMPT_KINDS, ModelPrice
from app.billing.prices.price_list import NO_VERSION, PriceList, rounded
from app.billing.prices.quote import plain
from app.billing.prices.usage_reading import DIMENSIONS
from app.billing.reconciliation import records

_SEARCHES = "web_search_requests"


@dataclass(frozen=True, slots=True)
class PricedDifference:
    """Counts at our prices."""

    amount_usd: Decimal | None
    """None if one of them has no price."""
    lines: Sequence[Mapping[str, str]]


class UnitPrices:
    """The price of one token or search, with the factors of its dimensions."""

    def __init__(self, prices: PriceList, recorded: Iterable[records.RecordedUsage] = ()) -> None:
        """`recorded` shows by which names models are served: an operator may price a dated name alone."""
        self._prices = prices
        names: dict[str, Counter[tuple[str, str | None]]] = {}
        for each in recorded:
            served = names.setdefault(each.dimensions.model, Counter())
            served[each.served_model, each.requested_model] += each.receipts
        self._names = {model: served.most_common(1)[0][0] for model, served in names.items()}

    def unit(self, dimensions: records.Dimensions, kind: str, *, at: datetime) -> Decimal | None:
        """Dollars per token or search; None if there is no such price."""
        price = self._price_of(dimensions, at=at)
        return None if price is None else _unit(price, dimensions, kind)

    def version(self, dimensions: records.Dimensions, *, at: datetime) -> str:
        """The price list that a price is from."""
        price = self._price_of(dimensions, at=at)
        return NO_VERSION if price is None else price.version

    def cost(self, dimensions: records.Dimensions, counts: records.Counts, *, at: datetime) -> Decimal | None:
        """The cost of these counts; None if one of them has no price."""
        return _cost(self._price_of(dimensions, at=at), dimensions, counts)

    def cost_of_receipts(self, receipts: records.RecordedUsage) -> Decimal | None:
        """What these receipts should have charged; None if that cannot be known from their sums."""
        if receipts.refused:
            return Decimal(0)
        price = self._prices.find_price(
            receipts.served_model, at=receipts.began, requested=receipts.requested_model
        )
        if price is not None and not _has_usual_tiers(price):
            return None
        return _cost(price, receipts.dimensions, receipts.counts)

    def difference(
        self, dimensions: records.Dimensions, counts: records.Counts, *, at: datetime
    ) -> PricedDifference:
        """A signed difference with one line per kind."""
        amount: Decimal | None = Decimal(0)
        lines: list[Mapping[str, str]] = []
        for kind, quantity in zip(records.KINDS, counts, strict=True):
            if quantity:
                unit = self.unit(dimensions, kind, at=at)
                cost = None if unit is None else quantity * unit
                amount = None if amount is None or cost is None else amount + cost
                lines.append(_line(kind, quantity, unit, cost))
        return PricedDifference(None if amount is None else rounded(amount), lines)

    def _price_of(self, dimensions: records.Dimensions, *, at: datetime) -> ModelPrice | None:
        served, requested = self._names.get(dimensions.model, (dimensions.model, None))
        return self._prices.find_price(served, at=at, requested=requested)


def _cost(price: ModelPrice | None, dimensions: records.Dimensions, counts: records.Counts) -> Decimal | None:
    cost = Decimal(0)
    for kind, quantity in zip(records.KINDS, counts, strict=True):
        if quantity:
            unit = None if price is None else _unit(price, dimensions, kind)
            if unit is None:
                return None
            cost += quantity * unit
    return cost


def _unit(price: ModelPrice, dimensions: records.Dimensions, kind: str) -> Decimal | None:
    if kind == _SEARCHES:
        return price.web_search
    prompt = records.LONG_PROMPT + 1 if dimensions.context_window == records.LONG_CONTEXT else 0
    unit = price.rate(kind).per_token(prompt)
    for name in DIMENSIONS:
        factor = price.factor(name, getattr(dimensions, name))
        if factor is None:
            return None
        unit *= factor
    return unit


def _has_usual_tiers(price: ModelPrice) -> bool:
    """Whether the price of a long prompt begins where the provider's report draws the line."""
    rates = [price.rate(kind) for kind in (*PROMPT_KINDS, "output")]
    return all(above == records.LONG_PROMPT for rate in rates for above, _ in rate.tiers)


def _line(kind: str, quantity: int, unit: Decimal | None, cost: Decimal | None) -> dict[str, str]:
    line = {"kind": kind, "quantity": str(quantity)}
    if unit is not None and cost is not None:
        line |= {"unit_price_usd": plain(unit), "amount_usd": plain(cost)}
    return line
