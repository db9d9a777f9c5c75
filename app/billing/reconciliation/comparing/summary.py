"""The sums of each hour and model, and the log of what is new; pure."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import structlog

from app.billing.prices.price_list import rounded
from app.billing.reconciliation.comparing.unit_prices import UnitPrices
from app.billing.reconciliation.records import (
    HOUR,
    Books,
    Difference,
    ListedCost,
    PriceDifference,
    ReconciledHour,
    ReconciledWindow,
    floor_to,
)

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Sums:
    """As in `ReconciledHour`, not rounded yet."""

    reported_usd: Decimal = Decimal(0)
    recorded_usd: Decimal = Decimal(0)
    unexplained_usd: Decimal = Decimal(0)
    foreign_usd: Decimal = Decimal(0)
    listed_usd: Decimal | None = None
    receipts: int = 0
    differences: int = 0
    unexplained: int = 0


_SumsByHour = dict[tuple[datetime, str], _Sums]


def hours_of(
    books: Books, differences: Iterable[Difference], costs: Iterable[ListedCost], *, prices: UnitPrices
) -> list[ReconciledHour]:
    """What was reported, recorded and found, by hour and model."""
    sums: _SumsByHour = defaultdict(_Sums)
    _add_reported(sums, books, prices)
    for receipts in books.recorded:
        if books.window.contains(receipts.began):
            held = sums[floor_to(receipts.began, HOUR), receipts.dimensions.model]
            held.recorded_usd += receipts.cost_usd
            held.receipts += receipts.receipts
    for cost in costs:
        if books.window.contains(cost.at):
            held = sums[floor_to(cost.at, HOUR), cost.dimensions.model]
            held.listed_usd = (held.listed_usd or Decimal(0)) + cost.cost_usd
    for each in differences:
        held = sums[floor_to(each.starting_at, HOUR), each.dimensions.model]
        held.differences += 1
        if not each.is_explained:
            held.unexplained += 1
            held.unexplained_usd += each.amount_usd or Decimal(0)
    return [_hour(hour, model, held) for (hour, model), held in sorted(sums.items())]


def _add_reported(sums: _SumsByHour, books: Books, prices: UnitPrices) -> None:
    for row in books.reported:
        if books.window.contains(row.at):
            held = sums[floor_to(row.at, HOUR), row.dimensions.model]
            dollars = prices.cost(row.dimensions, row.counts, at=row.at) or Decimal(0)
            if row.api_key_id in books.own_keys:
                held.reported_usd += dollars
            else:
                held.foreign_usd += dollars


def _hour(hour: datetime, model: str, held: _Sums) -> ReconciledHour:
    values: dict[str, Any] = {
        name: rounded(value) if isinstance(value, Decimal) else value for name, value in asdict(held).items()
    }
    return ReconciledHour(model=model, hour=hour, **values)


def without_known(
    result: ReconciledWindow, known: Sequence[Difference], known_prices: Sequence[PriceDifference]
) -> ReconciledWindow:
    """The result without what an earlier comparison has found as well."""
    same, same_prices = {each.identity for each in known}, {each.identity for each in known_prices}
    return replace(
        result,
        differences=[each for each in result.differences if each.identity not in same],
        prices=[each for each in result.prices if each.identity not in same_prices],
    )


def superseded_by(
    result: ReconciledWindow, known: Sequence[Difference], known_prices: Sequence[PriceDifference]
) -> set[UUID]:
    """What an earlier comparison has found and this one has not; if no costs were read, prices stay."""
    found, prices = {each.identity for each in result.differences}, {each.identity for each in result.prices}
    gone = {each.id for each in known if each.identity not in found}
    if result.prices_audited:
        gone |= {each.id for each in known_prices if each.identity not in prices}
    return gone


def log_new(
    result: ReconciledWindow, *, known: Sequence[Difference], known_prices: Sequence[PriceDifference]
) -> None:
    """Log what no earlier comparison of this time has found."""
    seen = {each.identity for each in known}
    for each in result.differences:
        if not each.is_explained and each.identity not in seen:
            log.error(
                "reconciliation.unexplained",
                cause=each.cause,
                start=each.starting_at.isoformat(),
                model=each.dimensions.model,
                amount_usd=None if each.amount_usd is None else f"{each.amount_usd:f}",
            )
    seen_prices = {_price_identity(each) for each in known_prices}
    for price in result.prices:
        if _price_identity(price) not in seen_prices:
            seen_prices.add(_price_identity(price))
            log.error(
                "reconciliation.price_differs",
                model=price.dimensions.model,
                kind=price.kind,
                provider_unit_usd=f"{price.provider_unit_usd:f}",
                own_unit_usd=None if price.own_unit_usd is None else f"{price.own_unit_usd:f}",
            )
    log.info(
        "reconciliation.completed",
        start=result.window.start.isoformat(),
        end=result.window.end.isoformat(),
        differences=len(result.differences),
        unexplained=sum(not each.is_explained for each in result.differences),
    )


def _price_identity(each: PriceDifference) -> object:
    """Once for a price, however many hours it differs in."""
    return each.dimensions, each.kind
