"""What a run's channel asks of credit and tells billing, without a database."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from app.billing.budgets.records import Amount
from app.billing.credit.ledger import CreditLedger
from app.billing.credit.records import Spendable
from app.billing.prices.price_list import PriceList
from app.billing.receipts.journal import Journal
from app.billing.receipts.queue import ReceiptQueue
from app.executors.metering import BilledMetering, channel_limits, usage_fact
from app.gateway.answer_usage import MessageUsage
from app.gateway.call import CallCost
from app.ids import MessageId, RunKey, new_uuid
from app.requests.run_request import RunLimits
from app.usage.records import TokenUsage
from tests.factories import a_plan

MODEL = "claude-sonnet-4-6"
USED = TokenUsage(input_tokens=1000, output_tokens=100)
COST = CallCost(maximum=Decimal(2), minimum=Decimal(1))


class Ledger(CreditLedger):
    """Answers as it is told; the database is away where it has no answer."""

    def __init__(self, *answers: int | Exception | None) -> None:
        self.answers = list(answers)
        self.reservations: list[tuple[int, int | None, int]] = []
        self.refused: list[Amount] = []

    async def resize_reservation(
        self,
        run: RunKey,  # noqa: ARG002 - there is only one
        requested: Amount,
        *,
        minimum: Amount | None = None,
        pending: int = 0,
    ) -> Spendable | None:
        self.reservations.append((requested.credits, None if minimum is None else minimum.credits, pending))
        answer = self._answer()
        return None if answer is None else Spendable(answer, has_budgets=False, has_due=False)

    async def report_refusal(self, run: RunKey, needed: Amount) -> None:  # noqa: ARG002 - only one
        self.refused.append(needed)
        self._answer()

    def _answer(self) -> int | None:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def metering(tmp_path: Path, *answers: int | Exception | None) -> tuple[BilledMetering, Ledger]:
    prices, ledger = PriceList(), Ledger(*answers)
    queue = ReceiptQueue(Journal(tmp_path, new_uuid()), prices)
    return BilledMetering(queue, ledger, prices), ledger


def a_message(**fields: Any) -> MessageUsage:
    return MessageUsage(MessageId("msg_1"), MODEL, USED, **{"complete": True, **fields})


async def test_a_call_that_is_covered_is_let_through_and_credit_is_held_for_it(tmp_path: Path) -> None:
    billed, ledger = metering(tmp_path, 10**12)
    hooks = billed.hooks_for(a_plan(), executor_type="claude_sdk")

    assert await hooks.check_credit(COST) is None
    assert ledger.reservations == [(20_000_000, 10_000_000, 0)]


async def test_an_account_without_limits_is_not_asked_for_each_call(tmp_path: Path) -> None:
    billed, ledger = metering(tmp_path, None)
    hooks = billed.hooks_for(a_plan(), executor_type="claude_sdk")

    assert [await hooks.check_credit(COST) for _ in range(3)] == [None] * 3
    assert len(ledger.reservations) == 1


async def test_without_a_journal_no_call_is_made(tmp_path: Path) -> None:
    journal, prices, ledger = Journal(tmp_path, new_uuid()), PriceList(), Ledger()
    billed = BilledMetering(ReceiptQueue(journal, prices), ledger, prices)
    journal.problem = "the disk is full"
    hooks = billed.hooks_for(a_plan(), executor_type="claude_sdk")

    assert await hooks.check_credit(COST) == "journal"
    assert ledger.reservations == []


async def test_what_was_seen_of_a_message_counts_against_the_credit_until_it_is_in_the_database(
    tmp_path: Path,
) -> None:
    billed, _ = metering(tmp_path)
    plan = a_plan()
    hooks = billed.hooks_for(plan, executor_type="claude_sdk")
    hooks.on_start(a_message(complete=False), None)
    hooks.on_usage(a_message())

    assert billed.receipts.pending_credits(plan.run).total > 0
    hooks.on_void(a_message())
    assert billed.receipts.pending_credits(plan.run).total == 0


async def test_a_model_without_a_price_is_held_against_a_budget_at_the_price_of_the_one_asked_for(
    tmp_path: Path,
) -> None:
    billed, _ = metering(tmp_path)
    hooks = billed.hooks_for(a_plan(model=MODEL), executor_type="claude_sdk")

    unknown = hooks.most_cost_of("nobody-knows-1", USED, None)

    assert hooks.cost_of(replace(a_message(), model="nobody-knows-1")) == unknown > 0
    assert unknown == hooks.most_cost_of(MODEL, USED, None)


async def test_the_limits_of_a_run_are_those_of_its_plan() -> None:
    plan = a_plan(limits=RunLimits.of(max_turns=3, max_total_tokens=100), timeout=timedelta(seconds=7))

    limits = channel_limits(plan)

    assert (limits.max_turns, limits.max_total_tokens, limits.max_budget_usd) == (3, 100, None)
    assert limits.spent == plan.spent


def test_a_receipt_names_its_executor_its_attempt_and_how_sure_its_numbers_are() -> None:
    plan = a_plan(attempt=2)

    whole = usage_fact(a_message(), plan, executor_type="messages_api")
    cut = usage_fact(
        a_message(complete=False, output_estimated=True, note="cut"),
        plan,
        executor_type="claude_sdk",
        origin="subagent",
        parent_tool_call_id="toolu_1",
    )

    assert (whole.executor_type, whole.attempt, whole.basis, whole.origin) == (
        *("messages_api", 2, "final", "assistant"),
    )
    assert (
        cut.executor_type,
        cut.basis,
        cut.output_estimated,
        cut.origin,
        cut.parent_tool_call_id,
        cut.note,
    ) == (*("claude_sdk", "partial", True, "subagent", "toolu_1", "cut"),)
