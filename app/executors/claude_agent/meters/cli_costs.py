"""What the CLI says that a run has cost, compared with the list prices of what was measured.

Claude Code 2.1.332 prices the counts of a message at the list price of the model that it requested: with the
region, the speed, web searches, and the calls of an advisor at the advisor's price. It does not count the
service tier, the provider's compaction, the hops of a fallback and which model served the message, and it
does not know that a refusal without output is free. Of a message that was cut off it has an estimate.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any

import structlog
from claude_agent_sdk import ResultMessage

from app.billing.prices.price_list import PriceList
from app.billing.prices.quote import BilledUsage, Quote
from app.billing.prices.usage_reading import ADVISOR, factor_value
from app.gateway.answer_usage import MessageUsage
from app.storable import storable
from app.usage.provider import FALLBACK, list_of, object_of
from app.usage.records import CostComparison

log = structlog.get_logger(__name__)

LIST_PRICES = PriceList()
"""Without an operator's prices, which the CLI does not know."""

TOLERANCE_USD = Decimal("0.000000001")
"""The CLI adds binary fractions; no token costs as little as this."""

MOST_USD = 1e9
"""No run costs as much."""

_ZERO = Decimal(0)
_NOTE_CHARS = 200

ModelTotals = Mapping[str, Mapping[str, Any]]
"""The CLI's totals since it started, by requested model."""


@dataclass(slots=True)
class CliCosts:
    """Collects what the CLI and the meter say of one run, and compares the two at the end."""

    before: Callable[[], ModelTotals] = dict
    """The totals that the CLI started with: those of earlier runs of a resumed conversation."""
    _measured: Decimal = _ZERO
    _counted: Decimal = _ZERO
    """What the CLI must have counted of the measured messages."""
    _notes: dict[str, None] = field(default_factory=dict)
    _problem: str | None = None
    _last: ResultMessage | None = None
    _messages: int = 0

    def add(self, message: MessageUsage, *, requested: str) -> None:
        """A message that was measured, once and with its last numbers, and the model it was requested of."""
        own = LIST_PRICES.quote(_billed(message), at=message.at)
        by_cli = own
        if reasons := _uncounted(message, requested):
            by_cli = LIST_PRICES.quote(_as_counted_by_cli(message, requested), at=message.at)
        self._measured += own.cost_usd
        self._counted += by_cli.cost_usd
        if own.cost_usd != by_cli.cost_usd:
            self._notes |= dict.fromkeys(reasons)
        self._problem = self._problem or _problem(message, by_cli)

    def observe(self, result: ResultMessage, *, messages: int) -> None:
        """A turn has ended; `messages` have been measured until now."""
        self._last, self._messages = result, messages
        if (result.terminal_reason or "").startswith("aborted"):
            self._problem = self._problem or "interrupted"

    def compare(self, *, messages: int) -> CostComparison:
        problem, cli = self._problem, self._cost()
        if cli is None:
            problem = problem or "no result of the CLI"
        elif messages != self._messages:
            problem = problem or "calls after the last result of the CLI"
        problem = problem or self._guessed()
        if cli is None or problem is not None:
            return CostComparison(self._measured, notes=() if problem is None else (problem,))
        drift = self._counted - cli
        found = CostComparison(
            self._measured,
            sdk_usd=cli,
            explained_usd=self._measured - self._counted,
            drift_usd=_ZERO if abs(drift) <= TOLERANCE_USD else drift,
            notes=tuple(self._notes),
        )
        if found.drift_usd:
            log.error("meters.costs_disagree", **asdict(found))
        return found

    def _guessed(self) -> str | None:
        """Which models the CLI has no list price of."""
        after = {} if self._last is None else self._last.model_usage or {}
        before = self.before()
        guessed = sorted(
            model
            for model, totals in after.items()
            if totals.get("costBasis", "list") != "list" and totals != before.get(model)
        )
        return _noted("the CLI has no list price of", guessed) if guessed else None

    def _cost(self) -> Decimal | None:
        """What the CLI says that the run has cost, if it says that."""
        after = None if self._last is None else _sum_of(self._last.model_usage)
        before = _sum_of(self.before())
        return None if after is None or before is None else after - before


def _problem(message: MessageUsage, quoted: Quote) -> str | None:
    """Why the CLI's number of this message is not known."""
    if not message.complete or message.output_estimated:
        return "a message that was cut off is an estimate"
    if message.duplicate_of is not None:
        return "the provider used a message id twice"
    return _noted("no list price:", quoted.unpriced) if quoted.unpriced else None


def _uncounted(message: MessageUsage, requested: str) -> list[str]:
    """What makes the CLI's number of a message differ from its price."""
    kinds = {str(object_of(each).get("type")) for each in list_of(message.reported.get("iterations"))}
    tier = factor_value(message.reported.get("service_tier"))
    found = {
        f"service tier {tier}": tier not in {None, "standard"},
        "compaction by the provider": "compaction" in kinds,
        "fallback to another model": FALLBACK in kinds,
        f"served by {message.model}": FALLBACK not in kinds and message.model != requested,
        "a refusal without output is free": _billed(message).is_free,
    }
    return [name for name, is_so in found.items() if is_so]


def _billed(message: MessageUsage) -> BilledUsage:
    return BilledUsage(message.model, message.usage, message.reported, stop_reason=message.stop_reason)


def _as_counted_by_cli(message: MessageUsage, requested: str) -> BilledUsage:
    """The message as the CLI prices it: see above."""
    iterations = [object_of(each) for each in list_of(message.reported.get("iterations"))]
    has_fallback = any(each.get("type") == FALLBACK for each in iterations)
    kept = {ADVISOR} if has_fallback else {ADVISOR, "message"}
    reported = {
        **message.reported,
        "service_tier": None,
        "iterations": [_without_model(each) for each in iterations if each.get("type") in kept],
    }
    return BilledUsage(requested, message.usage, reported)


def _without_model(iteration: Mapping[str, Any]) -> Mapping[str, Any]:
    return iteration if iteration.get("type") == ADVISOR else {**iteration, "model": None}


def _sum_of(totals: Any) -> Decimal | None:
    """Dollars, or None if these are not the CLI's totals; `repr` of a float is the number that it sent."""
    if not isinstance(totals, dict) or not all(isinstance(each, dict) for each in totals.values()):
        return None
    costs = [each.get("costUSD", 0) for each in totals.values()]
    if not all(isinstance(cost, int | float) and 0 <= cost <= MOST_USD for cost in costs):
        return None
    return sum((Decimal(repr(cost)) for cost in costs), _ZERO)


def _noted(what: str, names: Iterable[str]) -> str:
    """A note that is no longer than a line, whatever the names are."""
    return str(storable(f"{what} {', '.join(names)}"[:_NOTE_CHARS]))
