"""Compares the provider's prices with ours: what it charges, divided by its tokens; pure."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from app.billing.prices.price_list import rounded
from app.billing.reconciliation.comparing.unit_prices import UnitPrices
from app.billing.reconciliation.records import (
    CostSource,
    Dimensions,
    ListedCost,
    PriceDifference,
    Window,
)

_MILLION = 1_000_000
_TOLERANCE = Decimal("0.0001")
"""Of an amount: the provider's own rounding of many small amounts."""


def audit_prices(
    costs: Sequence[ListedCost], prices: UnitPrices, *, window: Window, source: CostSource
) -> Iterator[PriceDifference]:
    """Every hour or day, and kind, whose price differs; models without tokens or without our price have none.

    If our price changes within the time, either price is accepted.
    """
    for cost in _summed(costs):
        if not cost.tokens or not window.contains(cost.at):
            continue
        own = [prices.unit(cost.dimensions, cost.kind, at=at) for at in (cost.at, cost.ends_at)]
        if own == [None, None] or any(_agrees(cost, unit) for unit in own):
            continue
        unit = own[0]
        yield PriceDifference(
            starting_at=cost.at,
            ending_at=cost.ends_at,
            dimensions=cost.dimensions,
            kind=cost.kind,
            tokens=cost.tokens,
            provider_unit_usd=cost.cost_usd / cost.tokens,
            own_unit_usd=unit,
            price_version=prices.version(cost.dimensions, at=cost.at),
            amount_usd=cost.cost_usd - cost.tokens * (unit or 0),
            source=source,
        )


def _agrees(cost: ListedCost, unit: Decimal | None) -> bool:
    if unit is None:
        return False
    expected = cost.tokens * unit
    return abs(cost.cost_usd - expected) <= max(cost.step_usd, expected * _TOLERANCE)


def _summed(costs: Sequence[ListedCost]) -> list[ListedCost]:
    """One row per time, dimensions and kind: a report may split it by workspace or product."""
    groups: dict[tuple[datetime, Dimensions, str], list[ListedCost]] = defaultdict(list)
    for cost in costs:
        groups[cost.at, cost.dimensions, cost.kind].append(cost)
    return [
        replace(
            rows[0],
            cost_usd=sum((row.cost_usd for row in rows), Decimal(0)),
            step_usd=max(row.step_usd for row in rows) * len(rows),
        )
        for rows in groups.values()
    ]


def merged(differences: Sequence[PriceDifference]) -> list[PriceDifference]:
    """One row per wrong price, however many hours it was wrong."""
    groups: dict[object, list[PriceDifference]] = defaultdict(list)
    for each in differences:
        units = rounded(each.provider_unit_usd * _MILLION), each.own_unit_usd, each.price_version
        groups[each.dimensions, each.kind, units].append(each)
    return [
        replace(
            rows[0],
            starting_at=min(row.starting_at for row in rows),
            ending_at=max(row.ending_at for row in rows),
            tokens=sum(row.tokens for row in rows),
            amount_usd=sum((row.amount_usd for row in rows), Decimal(0)),
        )
        for rows in groups.values()
    ]
