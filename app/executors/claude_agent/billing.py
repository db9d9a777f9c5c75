"""What a run's lane asks of billing and tells it."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

import structlog

from app.billing.ledger import CreditLedger
from app.billing.pricing import PriceList, UnknownPrice
from app.billing.receipts import ReceiptWriter
from app.errors import Unavailable
from app.executors.claude_agent.meters import fact_of
from app.executors.port import RunContext
from app.gateway.lane import LaneLimits, LaneLinks, Refusal
from app.usage import TokenUsage

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RunBilling:
    """Prices, credit and receipts, as lanes need them."""

    receipts: ReceiptWriter
    ledger: CreditLedger
    prices: PriceList

    def lane(self, context: RunContext) -> tuple[LaneLimits, LaneLinks]:
        """Limits and links of a run that starts now."""
        limits = LaneLimits(
            deadline=asyncio.get_running_loop().time() + context.timeout.total_seconds(),
            max_turns=context.limits.max_turns,
            max_total_tokens=context.limits.max_total_tokens,
            max_budget_usd=context.limits.max_budget_usd,
        )
        credit = _RunCredit(self, context)
        links = LaneLinks(
            cost_of=self._cost_of,
            objection=credit.objection,
            opened=lambda message: self.receipts.opened(fact_of(message, context)),
            closed=lambda message: self.receipts.closed(fact_of(message, context)),
        )
        return limits, links

    def _cost_of(self, model: str, usage: TokenUsage) -> Decimal:
        try:
            return self.prices.price_of(model, at=datetime.now(UTC)).cost_of(usage)
        except UnknownPrice:
            # The receipt writer raises the alarm.
            return Decimal(0)


class _RunCredit:
    """Whether a run's account may still spend."""

    def __init__(self, billing: RunBilling, context: RunContext) -> None:
        self._billing = billing
        self._run = context.run
        self._last = True

    async def objection(self) -> Refusal | None:
        """Why the run may not spend now: no credit, or nowhere to keep its receipts safe."""
        if not self._billing.receipts.ready:
            return "journal"
        return None if await self._left() else "credit"

    async def _left(self) -> bool:
        """Ask the ledger; with the database away its last answer stands."""
        try:
            left = await self._billing.ledger.left_for(self._run)
        except Unavailable as error:
            log.warning("the account's credit cannot be asked for", reason=error.detail)
            return self._last
        owed = self._billing.receipts.owed(self._run.account_id)
        self._last = left is None or left > owed
        return self._last
