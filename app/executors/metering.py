"""Limits, credit and receipts of a run's model calls; the same for every executor."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Protocol

import structlog

from app.billing.credit.ledger import CreditLedger
from app.billing.prices.price_list import PriceList, UnknownPrice
from app.billing.prices.quote import BilledUsage
from app.billing.receipts.queue import ReceiptQueue
from app.billing.reconciliation.calls.counter import CallCounter
from app.errors import Unavailable
from app.executors.port import RunPlan
from app.gateway.call import CallCost, MeteringHooks, Refusal
from app.gateway.channel import ChannelLimits
from app.gateway.wire import MessageUsage
from app.usage import ExecutorType, Origin, TokenUsage, UsageFact

log = structlog.get_logger(__name__)

_LEDGER_TIMEOUT_S = 1.0
"""How long a call may wait for the ledger."""

_UNLIMITED_FOR_S = 5.0
"""How long the answer "this account has no credit limit" is reused."""


class Metering(Protocol):
    """Provides the hooks by which a run's gateway channel checks credit and reports usage."""

    def hooks_for(self, plan: RunPlan, *, executor_type: ExecutorType) -> MeteringHooks:
        """The hooks of a run that starts now."""
        ...


@dataclass(frozen=True, slots=True)
class BilledMetering:
    """Metering by the price list, the credit ledger and the receipt queue."""

    receipts: ReceiptQueue
    ledger: CreditLedger
    prices: PriceList
    calls: CallCounter | None = None

    def hooks_for(self, plan: RunPlan, *, executor_type: ExecutorType) -> MeteringHooks:
        """See the protocol."""
        to_fact = partial(usage_fact, plan=plan, executor_type=executor_type)

        def on_start(message: MessageUsage, instead_of: MessageUsage | None) -> None:
            if instead_of is None and self.calls is not None:
                self.calls.count_sent(message.call.requested_model or message.model)
            self.receipts.start_message(to_fact(message), None if instead_of is None else to_fact(instead_of))

        def on_void(message: MessageUsage) -> None:
            if self.calls is not None:
                self.calls.count_refused(message.call.requested_model or message.model)
            self.receipts.void_message(to_fact(message))

        return MeteringHooks(
            cost_of=partial(self._cost_of, plan),
            most_cost_of=partial(self._most_cost_of, plan),
            check_credit=_CreditCheck(self, plan).check,
            on_start=on_start,
            on_progress=lambda message: self.receipts.update_message(to_fact(message)),
            on_usage=lambda message: self.receipts.complete_message(to_fact(message)),
            on_void=on_void,
        )

    def _cost_of(self, plan: RunPlan, message: MessageUsage) -> Decimal:
        billed = BilledUsage(
            message.model,
            message.usage,
            message.reported,
            requested_model=message.call.requested_model,
            stop_reason=message.stop_reason,
        )
        quoted = self.prices.quote(billed, at=message.at)
        if not quoted.unpriced:
            return quoted.cost_usd
        # The receipt queue logs the missing price.
        return max(
            quoted.cost_usd,
            self._most_cost_of(plan, message.model, message.usage, message.reported.get("speed")),
        )

    def _most_cost_of(self, plan: RunPlan, model: str, usage: TokenUsage, speed: str | None) -> Decimal:
        now = datetime.now(UTC)
        try:
            return self.prices.most(model, usage, at=now, speed=speed)
        except UnknownPrice:
            # Budgets are enforced at the price of the requested model.
            return self.prices.most(plan.model, usage, at=now, speed=speed)


def channel_limits(plan: RunPlan) -> ChannelLimits:
    """The limits of a run that starts now."""
    return ChannelLimits(
        deadline=asyncio.get_running_loop().time() + plan.timeout.total_seconds(),
        max_turns=plan.limits.max_turns,
        max_total_tokens=plan.limits.max_total_tokens,
        max_budget_usd=plan.limits.max_budget_usd,
        spent=plan.spent,
    )


def usage_fact(
    message: MessageUsage,
    plan: RunPlan,
    *,
    executor_type: ExecutorType,
    origin: Origin = "assistant",
    parent_tool_call_id: str | None = None,
) -> UsageFact:
    """The billing record of a message that the gateway measured."""
    return UsageFact(
        run=plan.run,
        attempt=plan.attempt,
        message_id=message.message_id,
        attribution=plan.attribution,
        model=message.model,
        usage=message.usage,
        executor_type=executor_type,
        reported=message.reported,
        call=message.call,
        stop_reason=message.stop_reason,
        basis="final" if message.complete and not message.unreadable else "partial",
        output_estimated=message.output_estimated,
        origin=origin,
        parent_tool_call_id=parent_tool_call_id,
        note=message.note,
        cache_miss=message.cache_miss,
        at=message.at,
    )


class _CreditCheck:
    """Checks whether a run's account may still spend."""

    def __init__(self, metering: BilledMetering, plan: RunPlan) -> None:
        self._metering = metering
        self._run = plan.run
        self._held = plan.reserved
        """Credits the run may spend: first its reservation, then the ledger's last answer; None: no limit."""
        self._unlimited_until = 0.0

    async def check(self, in_progress: CallCost) -> Refusal | None:
        """Why the run may not spend now: the journal is not writable, or the credit is used up.

        If it may, credit for `in_progress` (all calls of the run that have not ended) is reserved,
        or as much of it as is available.
        """
        receipts, account_id = self._metering.receipts, self._run.account_id
        if not receipts.ready:
            return "journal"
        if asyncio.get_running_loop().time() < self._unlimited_until:
            return None
        if await self._is_covered(in_progress):
            return None
        # Receipts being delivered may have been counted twice: as pending here and by the database.
        await receipts.wait_delivered(account_id, within_s=_LEDGER_TIMEOUT_S)
        return None if await self._is_covered(in_progress) else "credit"

    async def _is_covered(self, cost: CallCost) -> bool:
        """Reserve credit; without the database its last answer is used, less pending receipts."""
        pending, prices = self._metering.receipts.pending_credits(self._run), self._metering.prices
        maximum, minimum = prices.credits_for(cost.maximum), max(1, prices.credits_for(cost.minimum))
        try:
            async with asyncio.timeout(_LEDGER_TIMEOUT_S):
                self._held = await self._metering.ledger.resize_reservation(
                    self._run, max(maximum, minimum), minimum=minimum, pending=pending
                )
        except (TimeoutError, Unavailable):
            log.warning("credit.check_failed")
        if self._held is None:
            self._unlimited_until = asyncio.get_running_loop().time() + _UNLIMITED_FOR_S
            return True
        return self._held >= minimum + pending
