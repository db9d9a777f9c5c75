"""What a run may spend when the ledger answers late, or not at all."""

import asyncio
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from app.billing.budgets.records import Amount
from app.billing.credit.ledger import BudgetSpent
from app.billing.credit.records import Spendable
from app.billing.prices.price_list import PriceList
from app.billing.receipts.journal import Journal
from app.billing.receipts.queue import ReceiptQueue
from app.errors import Unavailable
from app.executors.budget_check import UNLIMITED_FOR_S, BudgetCheck, LedgerTurns
from app.gateway.call import CallCost, Refusal
from app.ids import MessageId, RunId, new_uuid
from app.platform.clock.lease import Lease
from app.platform.db import StatementFailed
from app.requests.outcome import SpentBudget
from app.usage.records import TokenUsage, UsageFact
from tests.factories import a_plan
from tests.unit.executors.test_metering import Ledger

PLAN = a_plan()
DOLLAR = 10_000_000
FACT = UsageFact(
    run=PLAN.run,
    attempt=0,
    message_id=MessageId("msg_1"),
    attribution=PLAN.attribution,
    model="claude-sonnet-4-6",
    usage=TokenUsage(input_tokens=1_000_000),
    executor_type="claude_sdk",
)
"""Costs three dollars."""


def a_check(
    directory: Path,
    *answers: int | Exception | None,
    reserved: int | None = None,
    unlimited_at: float | None = None,
    wait_s: float = 0,
    turns: LedgerTurns | None = None,
    lease: Lease | None = None,
    ledger: Ledger | None = None,
) -> tuple[BudgetCheck, Ledger, ReceiptQueue]:
    prices, ledger = PriceList(), ledger or Ledger(*answers)
    receipts = ReceiptQueue(Journal(directory, new_uuid()), prices)
    amount = None if reserved is None else Amount(reserved, 10**9)
    plan = replace(PLAN, reserved=amount, unlimited_at=unlimited_at)
    check = BudgetCheck(
        plan,
        receipts=receipts,
        ledger=ledger,
        prices=prices,
        turns=turns or LedgerTurns(),
        ledger_wait_s=wait_s,
        lease=lease or Lease(),
    )
    return check, ledger, receipts


async def of(check: BudgetCheck, maximum: int, minimum: int = 1) -> Refusal | None:
    return await check.check(CallCost(Decimal(maximum), Decimal(minimum)))


@pytest.mark.parametrize(
    "answer", [None, Unavailable(), TimeoutError(), StatementFailed("x", by_values=False)]
)
async def test_a_refusal_is_reported_with_what_was_needed_if_the_ledger_answers(
    tmp_path: Path, answer: Exception | None
) -> None:
    spent = BudgetSpent(SpentBudget("house", None))
    check, ledger, _ = a_check(tmp_path, spent, spent, answer)

    refusal = await of(check, 2)
    await check.report_refusal()

    assert (refusal, ledger.refused) == ("account_budget", [Amount(10_000_000, 1)])


@pytest.mark.parametrize("error", [Unavailable(), TimeoutError(), StatementFailed("x", by_values=False)])
async def test_no_answer_is_no_call(tmp_path: Path, error: Exception) -> None:
    check, ledger, _ = a_check(tmp_path, error, error)

    assert [await of(check, 1), await of(check, 1)] == ["database"] * 2
    assert len(ledger.reservations) == 2


async def test_a_ledger_that_answers_in_time_is_waited_for(tmp_path: Path) -> None:
    check, ledger, _ = a_check(tmp_path, Unavailable(), Unavailable(), 2 * DOLLAR, wait_s=10)

    assert await of(check, 1) is None
    assert len(ledger.reservations) == 3


@pytest.mark.parametrize(("dollars", "refusal"), [(2, None), (3, "database")])
async def test_without_an_answer_credit_that_was_reserved_may_be_used(
    tmp_path: Path, dollars: int, refusal: str | None
) -> None:
    check, _, _ = a_check(tmp_path, Unavailable(), reserved=2 * DOLLAR)

    assert await of(check, dollars) == refusal


async def test_what_is_spent_is_no_longer_reserved(tmp_path: Path) -> None:
    check, ledger, receipts = a_check(tmp_path, 9 * DOLLAR, Unavailable(), 9 * DOLLAR, Unavailable())
    assert await of(check, 4) is None
    receipts.complete_message(FACT)

    # Three of the four are spent, and one is left.
    assert await of(check, 2) == "database"
    assert await of(check, 4) is None
    assert await of(check, 1) is None

    requested = [credits_ // DOLLAR for credits_, _, _ in ledger.reservations]
    assert requested == [4, 5, 7, 4]


async def test_a_change_that_was_not_confirmed_may_have_happened(tmp_path: Path) -> None:
    check, _, _ = a_check(tmp_path, 9 * DOLLAR, Unavailable(), Unavailable())
    assert await of(check, 6) is None

    assert await of(check, 2) is None
    # It may have been lowered to two.
    assert await of(check, 3) == "database"


async def test_what_others_have_spent_is_not_there(tmp_path: Path) -> None:
    check, ledger, receipts = a_check(tmp_path, 4 * DOLLAR, 4 * DOLLAR)
    receipts.record(replace(FACT, run=PLAN.run._replace(run_id=RunId("another"))))

    assert await of(check, 2, 2) == "credit"
    assert ledger.reservations == [(2 * DOLLAR, 2 * DOLLAR, 3 * DOLLAR)] * 2


@pytest.mark.parametrize(("age_s", "checks"), [(0.0, 0), (UNLIMITED_FOR_S + 1, 1)])
async def test_the_answer_at_acceptance_is_used_as_long_as_any_other(
    tmp_path: Path, age_s: float, checks: int
) -> None:
    """The account had no limit when the run was accepted; it may have waited in the queue since."""
    accepted_at = asyncio.get_running_loop().time() - age_s
    check, ledger, _ = a_check(tmp_path, 0, 0, unlimited_at=accepted_at)

    assert await of(check, 1) == ("credit" if checks else None)
    assert len(ledger.reservations) == 2 * checks


async def test_a_run_of_which_nothing_is_known_needs_an_answer(tmp_path: Path) -> None:
    check, ledger, _ = a_check(tmp_path, 0, 0)

    assert await of(check, 1) == "credit"
    assert len(ledger.reservations) == 2


async def test_only_a_run_that_needs_an_answer_waits_for_many_others(tmp_path: Path) -> None:
    turns = LedgerTurns()
    unlimited, _, _ = a_check(
        tmp_path / "unlimited",
        unlimited_at=asyncio.get_running_loop().time() - UNLIMITED_FOR_S - 1,
        wait_s=60,
        turns=turns,
    )
    unknown, ledger, _ = a_check(tmp_path / "unknown", 2 * DOLLAR, wait_s=60, turns=turns)

    async with turns.take(PLAN.run.account_id, until=asyncio.get_running_loop().time()):
        waiting = asyncio.create_task(of(unknown, 1))
        assert await of(unlimited, 1) is None
        assert not waiting.done()
        assert ledger.reservations == []

    assert await waiting is None
    assert len(ledger.reservations) == 1


async def test_runs_that_wait_together_need_one_answer_that_there_is_no_limit(tmp_path: Path) -> None:
    turns = LedgerTurns()
    checks = [a_check(tmp_path / str(n), None, 0, 0, wait_s=60, turns=turns) for n in range(3)]

    async with turns.take(PLAN.run.account_id, until=asyncio.get_running_loop().time()):
        waiting = [asyncio.create_task(of(check, 1)) for check, _, _ in checks]
        await asyncio.sleep(0)
    answers = await asyncio.gather(*waiting)
    late, ledger, _ = a_check(tmp_path / "late", 0, 0, turns=turns)

    assert answers == [None] * 3
    assert [len(ledger.reservations) for _, ledger, _ in checks] == [1, 0, 0]
    # One that asks later gets an answer of its own.
    assert await of(late, 1) == "credit"
    assert len(ledger.reservations) == 2


async def test_a_turn_that_never_comes_is_no_call(tmp_path: Path) -> None:
    turns = LedgerTurns()
    check, ledger, _ = a_check(tmp_path, turns=turns)

    async with turns.take(PLAN.run.account_id, until=asyncio.get_running_loop().time()):
        assert await of(check, 1) == "database"

    assert ledger.reservations == []


async def test_without_a_lease_there_is_no_call(tmp_path: Path) -> None:
    lease = Lease(0)
    check, _, _ = a_check(tmp_path, None, lease=lease)

    assert await of(check, 1) == "database"


async def test_a_run_that_is_lost_while_the_ledger_answers_makes_no_call(tmp_path: Path) -> None:
    lease = Lease()

    class Losing(Ledger):
        async def resize_reservation(self, *args: Any, **options: Any) -> Spendable | None:
            lease.lose([PLAN.run])
            return await super().resize_reservation(*args, **options)

    check, _, _ = a_check(tmp_path, ledger=Losing(9 * DOLLAR), lease=lease)

    assert await of(check, 1) == "database"


async def test_a_run_that_another_process_took_over_makes_no_call(tmp_path: Path) -> None:
    lease = Lease()
    check, _, _ = a_check(tmp_path, 9 * DOLLAR, 9 * DOLLAR, wait_s=10, lease=lease)
    assert await of(check, 1) is None
    lease.lose([PLAN.run])

    assert await of(check, 1) == "database"
