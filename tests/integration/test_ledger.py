import asyncio
import random
from datetime import UTC, datetime

import pytest
import pytest_asyncio
from sqlalchemy import text

from app.auth.records import KeyRecord
from app.billing.credit.ledger import (
    AccountTerms,
    CreditLedger,
    InsufficientCredits,
    MonthlyBudgetExhausted,
    ReferenceTaken,
)
from app.billing.prices.price_list import Charge, PriceList
from app.billing.prices.quote import BilledUsage
from app.billing.receipts.records import NewReceipt
from app.billing.receipts.repository import insert_receipts
from app.ids import RunId, RunKey
from app.platform.db import Database, StatementFailed
from tests.factories import a_fact, an_account

NOW = datetime.now(UTC)


@pytest_asyncio.fixture
async def key(database: Database) -> KeyRecord:
    return await an_account(database)


@pytest.fixture
def ledger(database: Database) -> CreditLedger:
    return CreditLedger(database)


def run_of(key: KeyRecord, name: str = "run-1") -> RunKey:
    return RunKey(key.account_id, RunId(name))


async def charge(database: Database, key: KeyRecord, message: str, credits_: int) -> None:
    fact = a_fact(key, message)
    priced = PriceList().charge(BilledUsage.of(fact), at=NOW)
    charged = Charge(priced.cost_usd, credits_, priced.price_version)
    async with database.transaction() as tx:
        await insert_receipts(tx, [NewReceipt.of(fact, charged, "final")])


async def reserve(database: Database, ledger: CreditLedger, run: RunKey, wanted: int) -> None:
    async with database.transaction() as tx:
        await ledger.reserve(tx, run, wanted)


async def release(database: Database, ledger: CreditLedger, run: RunKey) -> None:
    async with database.transaction() as tx:
        await ledger.release(tx, run)


async def test_the_balance_is_the_sum_of_the_ledger(
    database: Database, ledger: CreditLedger, key: KeyRecord
) -> None:
    rng = random.Random(3)  # noqa: S311 - nothing secret
    await ledger.change_terms(key.account_id, lambda _: AccountTerms("prepaid", None))
    await ledger.grant(key.account_id, 10**9)

    async def something(number: int) -> None:
        match rng.randrange(5):
            case 0:
                await ledger.grant(key.account_id, rng.randint(1, 10**6))
            case 1:
                await ledger.adjust(key.account_id, rng.choice([-1, 1]) * rng.randint(1, 10**5))
            case 2:
                await charge(database, key, f"msg_{number}", rng.randint(0, 10**5))
            case 3:
                await reserve(database, ledger, run_of(key, f"run-{number % 7}"), rng.randint(1, 10**5))
            case _:
                await release(database, ledger, run_of(key, f"run-{number % 7}"))

    await asyncio.gather(*(something(number) for number in range(200)))

    credit = await ledger.balance(key.account_id)
    async with database.snapshot() as reader:
        kinds = await reader.execute(
            text("SELECT kind, sum(credits)::bigint FROM credit_ledger GROUP BY kind")
        )
        sums: dict[str, int] = {row.kind: row.sum for row in kinds}
        balance = (await reader.execute(text("SELECT balance FROM credit_accounts"))).scalar_one()
        receipts = await reader.execute(text("SELECT sum(charged_credits) FROM charge_receipts"))
        charged = receipts.scalar_one()
    assert credit.granted == sums["grant"]
    assert credit.adjusted == sums["adjustment"]
    assert credit.spent == -sums["debit"] == charged
    assert credit.reserved == -sums["reservation"] - sums["release"]
    assert credit.balance == balance == sums["grant"] + sums["adjustment"] + sums["debit"]
    assert credit.spent_this_month(datetime.now(UTC)) == credit.spent


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE credit_accounts SET granted = granted + 1",
        "UPDATE credit_accounts SET spent = 0",
        "UPDATE credit_accounts SET reserved = 0, spent_by_month = '{\"2020-01\": 1}'",
        "DELETE FROM credit_accounts",
        "INSERT INTO credit_accounts (account_id, granted) SELECT id, 5 FROM accounts WHERE name = 'new'",
    ],
)
async def test_nothing_but_the_ledger_changes_a_sum(
    database: Database, ledger: CreditLedger, key: KeyRecord, statement: str
) -> None:
    await an_account(database, "new")
    await ledger.grant(key.account_id, 10)
    await charge(database, key, "msg_1", 3)
    await ledger.change_terms(key.account_id, lambda _: AccountTerms("prepaid", None))
    await reserve(database, ledger, run_of(key), 2)

    with pytest.raises(StatementFailed, match="follow credit_ledger"):
        async with database.transaction() as tx:
            await tx.execute(text(statement))

    credit = await ledger.balance(key.account_id)
    assert (credit.granted, credit.spent, credit.reserved) == (10, 3, 2)


async def test_a_reference_counts_once(ledger: CreditLedger, key: KeyRecord) -> None:
    async def grant() -> None:
        await ledger.grant(key.account_id, 5, reference="invoice-1")

    await asyncio.gather(*(grant() for _ in range(5)))

    assert (await ledger.balance(key.account_id)).granted == 5
    with pytest.raises(ReferenceTaken):
        await ledger.grant(key.account_id, 6, reference="invoice-1")
    with pytest.raises(ReferenceTaken):
        await ledger.adjust(key.account_id, 5, reference="invoice-1")


async def test_two_runs_cannot_reserve_the_same_credit(
    database: Database, ledger: CreditLedger, key: KeyRecord
) -> None:
    await ledger.change_terms(key.account_id, lambda _: AccountTerms("prepaid", None))
    await ledger.grant(key.account_id, 100)

    outcomes = await asyncio.gather(
        *(reserve(database, ledger, run_of(key, f"run-{n}"), 60) for n in range(4)), return_exceptions=True
    )

    # 60, then the 40 that were left, then nothing.
    assert sum(isinstance(outcome, InsufficientCredits) for outcome in outcomes) == 2
    assert (await ledger.balance(key.account_id)).reserved == 100


async def test_a_run_may_spend_its_own_reservation(
    database: Database, ledger: CreditLedger, key: KeyRecord
) -> None:
    await ledger.change_terms(key.account_id, lambda _: AccountTerms("prepaid", None))
    await ledger.grant(key.account_id, 100)
    await reserve(database, ledger, run_of(key, "mine"), 60)
    await reserve(database, ledger, run_of(key, "theirs"), 40)

    assert await ledger.resize_reservation(run_of(key, "mine"), 60) == 60
    assert await ledger.resize_reservation(run_of(key, "theirs"), 40) == 40
    await charge(database, key, "msg_1", 50)
    assert await ledger.resize_reservation(run_of(key, "mine"), 11) == 10
    await release(database, ledger, run_of(key, "theirs"))
    await release(database, ledger, run_of(key, "theirs"))
    assert await ledger.resize_reservation(run_of(key, "mine"), 50) == 50
    assert (await ledger.balance(key.account_id)).reserved == 50


async def test_a_reservation_is_resized_to_what_the_last_call_needs(
    database: Database, ledger: CreditLedger, key: KeyRecord
) -> None:
    await ledger.change_terms(key.account_id, lambda _: AccountTerms("prepaid", None))
    await ledger.grant(key.account_id, 100)

    held = []
    for wanted, pending in ((30, 0), (80, 0), (80, 0), (101, 0), (90, 11), (90, 10), (0, 0)):
        assert await ledger.resize_reservation(run_of(key), wanted, pending=pending) == 100
        held.append((await ledger.balance(key.account_id)).reserved)
    assert held == [30, 80, 80, 80, 80, 90, 0]

    await ledger.resize_reservation(run_of(key), 70)
    await release(database, ledger, run_of(key))
    assert (await ledger.balance(key.account_id)).reserved == 0


async def test_a_reservation_is_what_calls_may_cost_even_if_only_the_minimum_is_left(
    ledger: CreditLedger, key: KeyRecord
) -> None:
    await ledger.change_terms(key.account_id, lambda _: AccountTerms("prepaid", None))
    await ledger.grant(key.account_id, 100)

    held = []
    for run, wanted, minimum, pending in (
        *(("one", 60, 10, 0), ("two", 60, 50, 0), ("two", 60, 30, 0), ("three", 60, 1, 0)),
        *(("one", 20, 20, 0), ("two", 90, 30, 15), ("two", 90, 30, 60)),
    ):
        await ledger.resize_reservation(run_of(key, run), wanted, minimum=minimum, pending=pending)
        held.append((await ledger.balance(key.account_id)).reserved)

    # 60; not 50 of the 40 left; 60, of which 40 are left; nothing is left for others; 20; 90 of the 80 left,
    # 15 of which are spent; not 30 of them if 60 are spent.
    assert held == [60, 60, 120, 120, 80, 110, 110]


async def test_concurrent_reservations_never_exceed_the_credit(
    database_url: str, database: Database, ledger: CreditLedger, key: KeyRecord
) -> None:
    """From two processes' pools, while messages are charged."""
    await ledger.change_terms(key.account_id, lambda _: AccountTerms("prepaid", None))
    await ledger.grant(key.account_id, 1000)
    other = await Database.open(database_url)
    runs = [run_of(key, f"run-{number}") for number in range(12)]
    admitted: list[int] = []

    async def call(number: int) -> None:
        chosen = ledger if number % 2 else CreditLedger(other)
        left = await chosen.resize_reservation(runs[number % 12], 90)
        if left is not None and left >= 90:
            admitted.append(number)
            await charge(database, key, f"msg_{number}", 90)

    try:
        for wave in range(3):
            await asyncio.gather(*(call(12 * wave + number) for number in range(12)))
            credit = await ledger.balance(key.account_id)
            assert credit.balance >= 0
    finally:
        await other.aclose()

    assert credit.spent == 90 * len(admitted) <= 1000
    assert len(admitted) >= 5


async def test_a_monthly_budget_limits_calls_too(
    database: Database, ledger: CreditLedger, key: KeyRecord
) -> None:
    await ledger.change_terms(key.account_id, lambda _: AccountTerms("postpaid", 100))
    await charge(database, key, "msg_1", 30)

    assert await ledger.resize_reservation(run_of(key, "mine"), 60) == 70
    assert await ledger.resize_reservation(run_of(key, "theirs"), 20) == 10
    assert (await ledger.balance(key.account_id)).reserved == 60


async def test_a_reservation_is_released_once_by_concurrent_releases(
    database: Database, ledger: CreditLedger, key: KeyRecord
) -> None:
    await ledger.change_terms(key.account_id, lambda _: AccountTerms("prepaid", None))
    await ledger.grant(key.account_id, 100)
    await reserve(database, ledger, run_of(key), 60)

    async with database.transaction() as first:
        await ledger.release(first, run_of(key))
        # The second has begun, and finds the reservation still there, before the first commits.
        second = asyncio.create_task(release(database, ledger, run_of(key)))
        await asyncio.wait([second], timeout=0.3)
    await second

    assert (await ledger.balance(key.account_id)).reserved == 0


async def test_terms_are_changed_from_what_they_are(ledger: CreditLedger, key: KeyRecord) -> None:
    def one_more(terms: AccountTerms) -> AccountTerms:
        return AccountTerms("prepaid", (terms.monthly_budget or 0) + 1)

    await asyncio.gather(*(ledger.change_terms(key.account_id, one_more) for _ in range(20)))

    credit = await ledger.balance(key.account_id)
    assert (credit.mode, credit.monthly_budget) == ("prepaid", 20)


async def test_a_post_paid_account_has_no_limit(
    database: Database, ledger: CreditLedger, key: KeyRecord
) -> None:
    await charge(database, key, "msg_1", 10**12)
    await reserve(database, ledger, run_of(key), 10**12)

    credit = await ledger.balance(key.account_id)

    assert (credit.balance, credit.reserved, credit.available(NOW)) == (-(10**12), 0, None)
    assert await ledger.resize_reservation(run_of(key), 10**12) is None
    assert (await ledger.balance(key.account_id)).reserved == 0


async def test_a_monthly_budget_starts_again_each_month(
    database: Database, ledger: CreditLedger, key: KeyRecord
) -> None:
    await ledger.change_terms(key.account_id, lambda _: AccountTerms("postpaid", 100))
    await charge(database, key, "msg_1", 100)

    credit = await ledger.balance(key.account_id)

    now = datetime.now(UTC)
    assert credit.available(now) == 0
    assert credit.available(now.replace(year=now.year + 1)) == 100
    with pytest.raises(MonthlyBudgetExhausted) as refused:
        await reserve(database, ledger, run_of(key), 1)
    assert (refused.value.detail, refused.value.code, refused.value.status) == (
        "The account's budget for this month is used up.",
        "insufficient_credits",
        402,
    )


@pytest.mark.parametrize(("granted", "detail"), [(5, "budget for this month"), (0, "no credit left")])
async def test_whoever_may_spend_no_more_is_told_which_limit_it_was(
    database: Database, ledger: CreditLedger, key: KeyRecord, granted: int, detail: str
) -> None:
    await ledger.change_terms(key.account_id, lambda _: AccountTerms("prepaid", 0))
    if granted:
        await ledger.grant(key.account_id, granted)

    with pytest.raises(InsufficientCredits, match=detail):
        await reserve(database, ledger, run_of(key), 1)


async def test_accounts_do_not_share_credit(database: Database, ledger: CreditLedger, key: KeyRecord) -> None:
    other = await an_account(database, "stranger")
    await ledger.grant(key.account_id, 5)
    await charge(database, key, "msg_1", 3)

    credit = await ledger.balance(other.account_id)

    assert (credit.granted, credit.spent) == (0, 0)
