"""A section of the table: what it measures of each system, and the goals."""

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from benchmarks.fleet.deployment import Deployment, System
from benchmarks.fleet.sizes import Sizes

Measure: TypeAlias = Callable[[Deployment, System, Sizes], Awaitable[Mapping[str, float]]]


@dataclass(frozen=True, slots=True)
class Metric:
    """A line of the table."""

    key: str
    what: str
    goal: float | None = None
    """None: it is printed to explain the others."""
    at_least: bool = False

    def row(self, single: float | None, fleet: float) -> tuple[str, ...]:
        """What, goal, single process, fleet, ratio, met; a failed measurement is infinite, and never met."""
        ratio = f"{fleet / single:.2f}" if single else "-"
        sign = "≥" if self.at_least else "≤"
        goal = "-" if self.goal is None else f"{sign} {self.goal:g}"
        here = "-" if single is None else f"{single:,.2f}"
        return self.what, goal, here, f"{fleet:,.2f}", ratio, self._met(fleet)

    def _met(self, fleet: float) -> str:
        if self.goal is None:
            return "-"
        return "yes" if (fleet >= self.goal if self.at_least else fleet <= self.goal) else "no"


@dataclass(frozen=True, slots=True)
class Section:
    """A part that can be measured by itself."""

    name: str
    metrics: tuple[Metric, ...]
    measure: Measure
    fleet_only: bool = False


def quantile(values: list[float], share: float) -> float:
    """A quantile; infinite if there are none."""
    return sorted(values)[int(share * (len(values) - 1))] if values else math.inf
