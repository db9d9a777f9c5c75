"""PricedTracing: spans of model calls with the costs that their receipts will have."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal

from app.billing.prices.price_list import PriceList
from app.billing.prices.quote import BilledUsage, PriceLine
from app.gateway.answer_usage import MessageUsage
from app.platform.telemetry.model_call import ModelCall
from app.platform.telemetry.records import PricedAnswer
from app.platform.telemetry.run_trace import RunTrace
from app.usage.records import UsageFact

_KINDS = {
    "input": "input",
    "output": "output",
    "cache_read": "cache_read_input_tokens",
    "cache_write_5m": "cache_creation_input_tokens",
    "cache_write_1h": "cache_creation_input_tokens",
}


@dataclass(frozen=True, slots=True)
class PricedTracing:
    """Implements `CallTracing`."""

    trace: RunTrace
    prices: PriceList
    to_fact: Callable[[MessageUsage], UsageFact]

    def start(self, requested_model: str, *, agent: str) -> ModelCall:
        return self.trace.start_call(requested_model, agent=agent)

    def end(self, call: ModelCall, message: MessageUsage | None) -> None:
        if message is None:
            call.end(None)
            return
        fact = self.to_fact(message)
        charge = self.prices.charge(BilledUsage.of(fact), at=fact.at)
        call.end(PricedAnswer(fact, charge.cost_usd, _by_kind(charge.lines)))


def _by_kind(lines: Iterable[PriceLine]) -> dict[str, Decimal]:
    dollars: dict[str, Decimal] = {}
    for line in lines:
        kind = _KINDS.get(line.kind, "other")
        dollars[kind] = dollars.get(kind, Decimal(0)) + line.amount_usd
    return dollars
