"""What a run's lane asks of billing and tells it."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Protocol

import structlog

from app.billing.ledger import CreditLedger
from app.billing.pricing import PriceList, UnknownPrice
from app.billing.receipt_queue import ReceiptQueue
from app.errors import Unavailable
from app.executors.claude_agent.metering.meters import fact_of
from app.executors.port import RunContext
from app.gateway.call import CallCost, ChannelHooks, Refusal
from app.gateway.channel import ChannelLimits
from app.gateway.wire import MessageUsage
from app.usage import TokenUsage

log = structlog.get_logger(__name__)

_PATIENCE_S = 1.0
"""How long a call may wait for the ledger."""

_UNLIMITED_S = 5.0
"""How long an account without limits is believed to have none."""


class MeteringHooks(Protocol):
    """Limits and links for lanes."""

    def lane(self, context: RunContext) -> tuple[ChannelLimits, ChannelHooks]:
        """Those of a run that starts now."""
        ...


@dataclass(frozen=True, slots=True)
class RunMetering:
    """Prices, credit and receipts, as lanes need them."""

    receipts: ReceiptQueue
    ledger: CreditLedger
    prices: PriceList

    def lane(self, context: RunContext) -> tuple[ChannelLimits, ChannelHooks]:
        """Limits and links of a run that starts now."""
        credit = _RunCredit(self, context)
        links = ChannelHooks(
            cost_of=partial(self._cost_of, context),
            objection=credit.objection,
            opened=partial(self._opened, context),
            closed=lambda message: self.receipts.complete_message(fact_of(message, context)),
            voided=lambda message: self.receipts.void_message(fact_of(message, context)),
        )
        return lane_limits(context), links

    def _opened(self, context: RunContext, message: MessageUsage, instead_of: MessageUsage | None) -> None:
        before = None if instead_of is None else fact_of(instead_of, context)
        self.receipts.start_message(fact_of(message, context), before)

    def _cost_of(self, context: RunContext, model: str, usage: TokenUsage) -> Decimal:
        now = datetime.now(UTC)
        try:
            price = self.prices.price_of(model, at=now)
        except UnknownPrice:
            # The receipt writer raises the alarm; a budget holds all the same, at the price of the
            # model that was asked for.
            price = self.prices.price_of(context.model, at=now)
        return price.cost_of(usage)


def lane_limits(context: RunContext) -> ChannelLimits:
    """Where a run that starts now must stop."""
    return ChannelLimits(
        deadline=asyncio.get_running_loop().time() + context.timeout.total_seconds(),
        max_turns=context.limits.max_turns,
        max_total_tokens=context.limits.max_total_tokens,
        max_budget_usd=context.limits.max_budget_usd,
        spent=context.spent,
    )


class _RunCredit:
    """Whether a run's account may still spend."""

    def __init__(self, billing: RunMetering, context: RunContext) -> None:
        self._billing = billing
        self._run = context.run
        self._last = context.reserved
        self._unlimited_until = 0.0

    async def objection(self, under_way: CallCost) -> Refusal | None:
        """Why the run may not spend now: no credit, or nowhere to keep its receipts safe.

        Without an objection, what its calls under way may cost is set aside, or all that is left.
        """
        receipts, account_id = self._billing.receipts, self._run.account_id
        if not receipts.ready:
            return "journal"
        now = asyncio.get_running_loop().time()
        if now < self._unlimited_until:
            return None
        if await self._covers(under_way):
            return None
        # What is on its way to the database may have been counted there and here.
        await receipts.wait_delivered(account_id, within_s=_PATIENCE_S)
        return None if await self._covers(under_way) else "credit"

    async def _covers(self, under_way: CallCost) -> bool:
        """Set credits aside; with the database away its last answer stands, less what was used since."""
        owed, prices = self._billing.receipts.pending_credits(self._run), self._billing.prices
        most, least = prices.credits_for(under_way.most), max(1, prices.credits_for(under_way.least))
        try:
            async with asyncio.timeout(_PATIENCE_S):
                self._last = await self._billing.ledger.resize_reservation(
                    self._run, max(most, least), minimum=least, pending=owed
                )
        except (TimeoutError, Unavailable):
            log.warning("the account's credit cannot be asked for; the last answer stands")
        if self._last is None:
            self._unlimited_until = asyncio.get_running_loop().time() + _UNLIMITED_S
            return True
        return self._last >= least + owed
