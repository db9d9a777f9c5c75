import asyncio
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import text

from app.auth.records import KeyRecord
from app.billing.budgets.records import Amount
from app.billing.credit.ledger import CreditLedger, InsufficientCredits, ReferenceTaken
from app.billing.credit.payment_mode import PaymentMode
from app.billing.credit.records import CreditBalance
from app.billing.prices.price_list import Charge, PriceList
from app.billing.prices.quote import BilledUsage
from app.billing.receipts.records import NewReceipt
from app.billing.receipts.repository import insert_receipts
from app.ids import RunId, RunKey
from app.platform.db import Database, StatementFailed
from tests.factories import a_fact, an_account, an_open_database
from tests.integration.statements import execute

NOW = datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Account:
    """An account and its ledger."""

    database: Database
    ledger: CreditLedger
    key: KeyRecord

    def run(self, name: str = "run-1") -> RunKey:
        return RunKey(self.key.account_id, RunId(name))

    async def prepay(self, credits_: int) -> None:
        """From now on it spends what it has, and has so much more."""
        await self.set_mode("prepaid")
        await self.grant(credits_)

    async def grant(self, credits_: int, **options: Any) -> None:
        await self.ledger.grant(self.key.account_id, credits_, **options)

    async def adjust(self, credits_: int, **options: Any) -> None:
        await self.ledger.adjust(self.key.account_id, credits_, **options)

    async def set_mode(self, mode: PaymentMode) -> None:
        await self.ledger.change_mode(self.key.account_id, mode)

    async def charge(self, message: str, credits_: int) -> None:
        fact = a_fact(self.key, message)
        priced = PriceList().charge(BilledUsage.of(fact), at=NOW)
        charged = Charge(priced.cost_usd, credits_, priced.price_version)
        async with self.database.transaction() as tx:
            await insert_receipts(tx, [NewReceipt.of(fact, charged, "final")])

    async def reserve(self, wanted: int, run: str = "run-1") -> None:
        async with self.database.transaction() as tx:
            await self.ledger.reserve(tx, self.run(run), wanted)

    async def release(self, run: str = "run-1") -> None:
        async with self.database.transaction() as tx:
            await self.ledger.release(tx, self.run(run))

    async def resize(
        self, wanted: int, run: str = "run-1", *, minimum: int | None = None, pending: int = 0
    ) -> int | None:
        """What its run may spend, of which it has reserved so much if there is as much."""
        least = None if minimum is None else Amount(minimum, 0)
        spendable = await self.ledger.resize_reservation(
            self.run(run), Amount(wanted, 0), minimum=least, pending=pending
        )
        return None if spendable is None else spendable.credits

    async def balance(self) -> CreditBalance:
        return await self.ledger.balance(self.key.account_id)


@pytest.fixture
def account(database: Database, key: KeyRecord) -> Account:
    return Account(database, CreditLedger(database), key)


async def test_the_balance_is_the_sum_of_the_ledger(account: Account) -> None:
    rng = random.Random(3)  # noqa: S311 - nothing secret
    await account.prepay(10**9)

    async def something(number: int) -> None:
        match rng.randrange(5):
            case 0:
                await account.grant(rng.randint(1, 10**6))
            case 1:
                await account.adjust(rng.choice([-1, 1]) * rng.randint(1, 10**5))
            case 2:
                await account.charge(f"msg_{number}", rng.randint(0, 10**5))
            case 3:
                await account.reserve(rng.randint(1, 10**5), f"run-{number % 7}")
            case _:
                await account.release(f"run-{number % 7}")

    await asyncio.gather(*(something(number) for number in range(200)))

    credit = await account.balance()
    async with account.database.snapshot() as reader:
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
async def test_nothing_but_the_ledger_changes_a_sum(account: Account, statement: str) -> None:
    await an_account(account.database, "new")
    await account.grant(10)
    await account.charge("msg_1", 3)
    await account.set_mode("prepaid")
    await account.reserve(2)

    with pytest.raises(StatementFailed, match="follow credit_ledger"):
        await execute(account.database, statement)

    credit = await account.balance()
    assert (credit.granted, credit.spent, credit.reserved) == (10, 3, 2)


async def test_a_reference_counts_once(account: Account) -> None:
    async def grant() -> None:
        await account.grant(5, reference="invoice-1")

    await asyncio.gather(*(grant() for _ in range(5)))

    assert (await account.balance()).granted == 5
    with pytest.raises(ReferenceTaken):
        await account.grant(6, reference="invoice-1")
    with pytest.raises(ReferenceTaken):
        await account.adjust(5, reference="invoice-1")


async def test_two_runs_cannot_reserve_the_same_credit(account: Account) -> None:
    await account.prepay(100)

    outcomes = await asyncio.gather(
        *(account.reserve(60, f"run-{n}") for n in range(4)), return_exceptions=True
    )

    # 60, then 60 of the 40 that were left, then nothing.
    assert sum(isinstance(outcome, InsufficientCredits) for outcome in outcomes) == 2
    assert (await account.balance()).reserved == 120


async def test_a_run_may_spend_its_own_reservation(account: Account) -> None:
    await account.prepay(100)
    await account.reserve(60, "mine")
    await account.reserve(40, "theirs")

    assert await account.resize(60, "mine") == 60
    assert await account.resize(40, "theirs") == 40
    await account.charge("msg_1", 50)
    assert await account.resize(11, "mine") == 10
    await account.release("theirs")
    await account.release("theirs")
    assert await account.resize(50, "mine") == 50
    assert (await account.balance()).reserved == 50


async def test_a_reservation_is_resized_to_what_the_last_call_needs(account: Account) -> None:
    await account.prepay(100)

    held = []
    for wanted, pending in ((30, 0), (80, 0), (80, 0), (101, 0), (90, 11), (90, 10), (0, 0)):
        assert await account.resize(wanted, pending=pending) == 100
        held.append((await account.balance()).reserved)
    assert held == [30, 80, 80, 80, 80, 90, 0]

    await account.resize(70)
    await account.release()
    assert (await account.balance()).reserved == 0


async def test_a_reservation_is_what_calls_may_cost_even_if_only_the_minimum_is_left(
    account: Account,
) -> None:
    await account.prepay(100)

    held = []
    for run, wanted, minimum, pending in (
        *(("one", 60, 10, 0), ("two", 60, 50, 0), ("two", 60, 30, 0), ("three", 60, 1, 0)),
        *(("one", 20, 20, 0), ("two", 90, 30, 15), ("two", 90, 30, 60)),
    ):
        await account.resize(wanted, run, minimum=minimum, pending=pending)
        held.append((await account.balance()).reserved)

    # 60; not 50 of the 40 left; 60, of which 40 are left; nothing is left for others; 20; 90 of the 80 left,
    # 15 of which are spent; not 30 of them if 60 are spent.
    assert held == [60, 60, 120, 120, 80, 110, 110]


async def test_concurrent_reservations_never_exceed_the_credit(database_url: str, account: Account) -> None:
    """From two processes' pools, while messages are charged."""
    await account.prepay(1000)
    runs = [account.run(f"run-{number}") for number in range(12)]
    admitted: list[int] = []

    async def call(number: int, ledger: CreditLedger) -> None:
        left = await ledger.resize_reservation(runs[number % 12], Amount(90, 0))
        if left is not None and left.credits >= 90:
            admitted.append(number)
            await account.charge(f"msg_{number}", 90)

    async with an_open_database(database_url) as other:
        ledgers = (account.ledger, CreditLedger(other))
        for wave in range(3):
            await asyncio.gather(*(call(12 * wave + n, ledgers[n % 2]) for n in range(12)))
            credit = await account.balance()
            assert credit.balance >= 0

    assert credit.spent == 90 * len(admitted) <= 1000
    assert len(admitted) >= 5


async def test_a_reservation_is_released_once_by_concurrent_releases(account: Account) -> None:
    await account.prepay(100)
    await account.reserve(60)

    async with account.database.transaction() as first:
        await account.ledger.release(first, account.run())
        # The second has begun, and finds the reservation still there, before the first commits.
        second = asyncio.create_task(account.release())
        await asyncio.wait([second], timeout=0.3)
    await second

    assert (await account.balance()).reserved == 0


async def test_a_post_paid_account_has_no_limit(account: Account) -> None:
    await account.charge("msg_1", 10**12)
    await account.reserve(10**12)

    credit = await account.balance()

    assert (credit.balance, credit.reserved, credit.available) == (-(10**12), 0, None)
    assert await account.resize(10**12) is None
    assert (await account.balance()).reserved == 0


async def test_accounts_do_not_share_credit(account: Account) -> None:
    other = await an_account(account.database, "stranger")
    await account.grant(5)
    await account.charge("msg_1", 3)

    credit = await account.ledger.balance(other.account_id)

    assert (credit.granted, credit.spent) == (0, 0)
