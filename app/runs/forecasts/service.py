"""Forecasts: the cost and the duration of runs of a graph, as far as its latest runs tell."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from app.billing.reports.service import BillingReports
from app.platform.db import Database
from app.requests.principal import Principal
from app.runs.forecasts.repository import newest_answers

MOST_RUNS = 200


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Half of the runs, and 95 of 100, needed no more."""

    p50: Decimal
    p95: Decimal


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run, or a batch, is expected to cost in dollars, and to take in seconds."""

    cost_usd: Quantiles
    seconds: Quantiles
    runs: int
    """How many runs it follows from."""

    def times(self, items: int, *, parallelism: int) -> "Forecast":
        """The forecast of so many runs, of which so many are executed at once."""
        return Forecast(
            _times(self.cost_usd, items), _times(self.seconds, math.ceil(items / parallelism)), self.runs
        )


@dataclass(frozen=True, slots=True)
class Forecasts:
    """Reads at most `MOST_RUNS` successful runs of the caller's account."""

    database: Database
    billing: BillingReports

    async def of(self, caller: Principal, graph_id: str) -> Forecast | None:
        """The forecast of a run; None without such runs, and for keys that may not read what runs cost."""
        if not caller.may("receipts:read"):
            return None
        async with self.database.read() as reader:
            seconds = await newest_answers(reader, caller.account_id, graph_id, most=MOST_RUNS)
        if not seconds:
            return None
        totals = await self.billing.totals(caller.account_id, list(seconds))
        costs = [each.cost_usd for each in totals.values()]
        return Forecast(_quantiles(costs), _quantiles(list(seconds.values())), len(seconds))


def _quantiles(values: Sequence[Decimal]) -> Quantiles:
    """By the nearest rank: each is a value that has occurred."""
    ordered = sorted(values)

    def at(percent: int) -> Decimal:
        return ordered[math.ceil(len(ordered) * percent / 100) - 1]

    return Quantiles(at(50), at(95))


def _times(each: Quantiles, factor: int) -> Quantiles:
    return Quantiles(each.p50 * factor, each.p95 * factor)
