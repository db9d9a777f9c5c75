"""Limits, credit and receipts of a run's model calls; the same for every executor."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Protocol

import structlog

from app.billing.credit.ledger import CreditLedger
from app.billing.prices.price_list import PriceList, UnknownPrice
from app.billing.prices.quote import BilledUsage
from app.billing.receipts.queue import ReceiptQueue
from app.billing.receipts.records import Receipt
from app.billing.reconciliation.calls.counter import CallCounter
from app.executors.budget_check import HELD_WAIT_S, LEDGER_WAIT_S, BudgetCheck, LedgerTurns
from app.executors.call_tracing import PricedTracing
from app.executors.evidence import AddEvidence, RunEvidence, keep_none
from app.executors.port import RunContext, RunPlan
from app.gateway.answer_usage import MessageUsage
from app.gateway.call import MeteringHooks
from app.gateway.channel import Channel, ChannelLimits
from app.gateway.prompt_cache.rendered import PromptEvidence
from app.ids import AccountId
from app.platform.clock.clock import Clock
from app.platform.clock.lease import Lease
from app.platform.telemetry.run_trace import RunTrace
from app.usage.records import ExecutorType, Origin, TokenUsage, UsageFact

log = structlog.get_logger(__name__)


class Metering(Protocol):
    """Provides the hooks by which a run's gateway channel checks credit and reports usage."""

    def hooks_for(
        self,
        plan: RunPlan,
        *,
        executor_type: ExecutorType,
        trace: RunTrace | None = None,
        add_evidence: AddEvidence = keep_none,
    ) -> MeteringHooks:
        """The hooks of a run that starts now; its calls of the model become spans of `trace`."""
        ...


@dataclass(frozen=True, slots=True)
class BilledMetering:
    """Metering by the price list, the credit ledger and the receipt queue."""

    receipts: ReceiptQueue
    ledger: CreditLedger
    prices: PriceList
    calls: CallCounter | None = None
    clock: Clock = field(default_factory=Clock)
    ledger_wait_s: float = LEDGER_WAIT_S
    """How long a call waits for a ledger that does not answer."""
    held_wait_s: float = HELD_WAIT_S
    """How long a call waits for what is reserved for other runs."""
    find_profile: Callable[[AccountId], str | None] = lambda _: None
    """The user profile at the provider of an account."""
    find_unpriced: Callable[[AccountId, datetime], Awaitable[Sequence[Receipt]]] | None = None
    """This month's receipts of an account that wait for a price."""
    turns: LedgerTurns = field(default_factory=LedgerTurns)
    lease: Lease = field(default_factory=Lease)

    def hooks_for(
        self,
        plan: RunPlan,
        *,
        executor_type: ExecutorType,
        trace: RunTrace | None = None,
        add_evidence: AddEvidence = keep_none,
    ) -> MeteringHooks:
        to_fact = partial(usage_fact, plan=plan, executor_type=executor_type)

        def on_start(message: MessageUsage, instead_of: MessageUsage | None) -> None:
            if instead_of is None and self.calls is not None:
                self.calls.count_sent(message.call.requested_model or message.model)
            self.receipts.start_message(to_fact(message), None if instead_of is None else to_fact(instead_of))

        def on_void(message: MessageUsage) -> None:
            if self.calls is not None:
                self.calls.count_refused(message.call.requested_model or message.model)
            self.receipts.void_message(to_fact(message))

        check = BudgetCheck(
            plan,
            receipts=self.receipts,
            ledger=self.ledger,
            prices=self.prices,
            turns=self.turns,
            ledger_wait_s=self.ledger_wait_s,
            lease=self.lease,
            find_unpriced=partial(self._unpriced_of, plan),
        )
        return MeteringHooks(
            cost_of=partial(self._cost_of, plan),
            most_cost_of=partial(self._most_cost_of, plan),
            check_credit=check.check,
            spent_budget=lambda: check.spent_budget,
            is_held=lambda: check.is_held,
            held_wait_s=self.held_wait_s,
            report_refusal=check.report_refusal,
            release_credit=check.release,
            on_start=on_start,
            on_progress=lambda message: self.receipts.update_message(to_fact(message)),
            on_usage=lambda message: self.receipts.complete_message(to_fact(message)),
            on_void=on_void,
            profile_id=self.find_profile(plan.run.account_id),
            now=self.clock.now,
            tracing=None if trace is None else PricedTracing(trace, self.prices, to_fact),
            evidence=None
            if add_evidence is keep_none
            else PromptEvidence(lambda content: add_evidence(RunEvidence("prompt_rendered", content))),
        )

    async def _unpriced_of(self, plan: RunPlan) -> Sequence[Receipt]:
        if self.find_unpriced is None:
            return ()
        return await self.find_unpriced(plan.run.account_id, self.clock.now())

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
        now = self.clock.now()
        try:
            return self.prices.most(model, usage, at=now, speed=speed)
        except UnknownPrice:
            # Budgets are enforced at the price of the requested model.
            return self.prices.most(plan.model, usage, at=now, speed=speed)


def channel_limits(plan: RunPlan, *, of_client: bool = False) -> ChannelLimits:
    """The limits of a run that starts now; `of_client`: its agent is a client's own."""
    return ChannelLimits(
        deadline=asyncio.get_running_loop().time() + plan.timeout.total_seconds(),
        max_turns=plan.limits.max_turns,
        max_total_tokens=plan.limits.max_total_tokens,
        max_budget_usd=plan.limits.max_budget_usd,
        covers_calls=plan.limits.cover_calls is True,
        web=plan.spec.web,
        spent=plan.spent,
        of_client=of_client,
    )


def attach_control(channel: Channel, context: RunContext) -> None:
    """Let the requests of clients, and decisions about the budget, count for the calls of a channel."""
    channel.stops_before_call = context.control.stops_before_call
    if context.plan.spec.on_budget == "pause":
        channel.raise_budget = context.control.budget.ask


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
