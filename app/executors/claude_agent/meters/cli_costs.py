"""What the CLI says that a run has cost, compared with the list prices of what was measured.

Claude Code 2.1.329 prices the counts of a message at the list price of the model that it requested: with the
region, the speed, web searches, and the calls of an advisor at the advisor's price. It does not count the
service tier, the provider's compaction, the hops of a fallback and which model served the message, and it
does not know that a refusal without output is free. Of a message that was cut off it has an estimate.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

import structlog
from claude_agent_sdk import ResultMessage

from app.billing.prices.price_list import PriceList
from app.billing.prices.quote import BilledUsage, Quote
from app.billing.prices.usage_reading import ADVISOR
from app.gateway.wire import MessageUsage
from app.provider_usage import FALLBACK, list_of, object_of
from app.usage import CostComparison

log = structlog.get_logger(__name__)

LIST_PRICES = PriceList()
"""Without an operator's prices, which the CLI does not know."""

TOLERANCE_USD = Decimal("0.000000001")
"""The CLI adds binary fractions; no token costs as little as this."""

_ZERO = Decimal(0)
_LISTED = {None, "list"}

ModelTotals = Mapping[str, Mapping[str, Any]]
"""The CLI's totals since it started, by requested model."""


@dataclass(slots=True)
class CliCosts:
    """Collects what the CLI reports of one run, and compares it at the end."""

    before: Callable[[], ModelTotals] = dict
    """The totals that the CLI started with: those of earlier runs of a resumed conversation."""
    _last: ResultMessage | None = None
    _messages: int = 0
    _interrupted: bool = False

    def observe(self, result: ResultMessage, *, messages: int) -> None:
        """A turn has ended; `messages` have been measured until now."""
        self._last, self._messages = result, messages
        self._interrupted |= (result.terminal_reason or "").startswith("aborted")

    def compare(
        self, messages: Sequence[MessageUsage], *, requested_model: str, hidden: Sequence[MessageUsage] = ()
    ) -> CostComparison:
        """Compare the run. `requested_model` is that of messages of which it is not known.

        `hidden` is usage that is only known from the CLI's own totals of tokens.
        """
        problem = self._problem()
        if problem is None and len(messages) != self._messages:
            problem = "calls after the last result of the CLI"
        found = compare_costs(
            [*messages, *hidden], self._cost(), requested_model=requested_model, problem=problem
        )
        if found.drift_usd:
            log.error("meters.costs_disagree", **asdict(found))
        return found

    def _problem(self) -> str | None:
        """Why the CLI's totals do not contain the whole run at list prices."""
        if self._interrupted:
            return "interrupted"
        if self._last is None or not isinstance(self._last.model_usage, dict):
            return "no result of the CLI"
        before = self.before()
        guessed = {
            model
            for model, totals in self._last.model_usage.items()
            if totals.get("costBasis") not in _LISTED and totals != before.get(model)
        }
        return f"the CLI has no list price of {', '.join(sorted(guessed))}" if guessed else None

    def _cost(self) -> Decimal:
        after = {} if self._last is None else self._last.model_usage or {}
        return _sum_of(after) - _sum_of(self.before())


def compare_costs(
    messages: Iterable[MessageUsage], cli_usd: Decimal, *, requested_model: str, problem: str | None = None
) -> CostComparison:
    """Compare measured messages with a total of the CLI; `problem`: why that cannot be done."""
    measured, counted, notes = _ZERO, _ZERO, dict[str, None]()
    for message in messages:
        requested = message.call.requested_model or requested_model
        own = _quote(_billed(message), message)
        seen_by_cli = _quote(_as_counted_by_cli(message, requested), message)
        measured, counted = measured + own.cost_usd, counted + seen_by_cli.cost_usd
        if own.cost_usd != seen_by_cli.cost_usd:
            notes |= dict.fromkeys(_uncounted(message, requested))
        problem = problem or _problem(message, seen_by_cli)
    if problem is not None:
        return CostComparison(measured, notes=(problem,))
    drift = counted - cli_usd
    return CostComparison(
        measured,
        sdk_usd=cli_usd,
        explained_usd=measured - counted,
        drift_usd=_ZERO if abs(drift) <= TOLERANCE_USD else drift,
        notes=tuple(notes),
    )


def _problem(message: MessageUsage, quoted: Quote) -> str | None:
    """Why the CLI's number of this message is not known."""
    if not message.complete or message.output_estimated:
        return "a message that was cut off is an estimate"
    if message.duplicate_of is not None:
        return "the provider used a message id twice"
    return f"no list price: {', '.join(quoted.unpriced)}" if quoted.unpriced else None


def _uncounted(message: MessageUsage, requested: str) -> list[str]:
    """What makes the CLI's number of a message differ from its price."""
    kinds = {str(object_of(each).get("type")) for each in list_of(message.reported.get("iterations"))}
    tier = message.reported.get("service_tier")
    found = {
        f"service tier {tier}": tier not in (None, "standard"),
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
    """A sampling iteration is one of the requested model."""
    return iteration if iteration.get("type") == ADVISOR else {**iteration, "model": None}


def _quote(billed: BilledUsage, message: MessageUsage) -> Quote:
    return LIST_PRICES.quote(billed, at=message.at)


def _sum_of(totals: Mapping[str, Any]) -> Decimal:
    """Dollars; `repr` of a float is the number that the CLI sent."""
    return sum((Decimal(repr(each.get("costUSD") or 0)) for each in totals.values()), _ZERO)
