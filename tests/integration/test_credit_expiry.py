"""Grants expire: once, in whatever process, and what has expired is never spent."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from app.auth.records import KeyRecord
from app.billing.budgets.records import Amount
from app.billing.chain.sums.comparison import wrong_sums
from app.billing.credit.expiry.service import CreditExpiry
from app.billing.credit.ledger import CreditLedger, InsufficientCredits, ReferenceTaken
from app.billing.credit.records import GrantTerms, Spendable
from app.errors import Invalid
from app.ids import RunId, RunKey
from app.platform.clock.clock import Clock
from app.platform.db import Database
from tests.factories import an_open_database
from tests.integration.charging import charge
from tests.integration.statements import rows

NOW = datetime.now(UTC)
SOON = NOW + timedelta(days=10)
LATER = NOW + timedelta(days=20)
AT_LATER = Clock(host=lambda: LATER)


@dataclass(frozen=True, slots=True)
class Account:
    """An account whose grants expire."""

    database: Database
    key: KeyRecord

    def ledger(self, clock: Clock | None = None) -> CreditLedger:
        return CreditLedger(self.database, clock)

    async def grant(self, credits_: int, expires_at: datetime | None = SOON, priority: int = 0) -> None:
        terms = GrantTerms(expires_at, priority)
        await self.ledger().grant(self.key.account_id, credits_, terms=terms)

    async def charge(self, message: str, credits_: int, used_at: datetime = NOW) -> None:
        await charge(self.database, self.key, message, credits_, at=used_at)

    async def left(self, clock: Clock | None = None) -> int:
        return (await self.ledger(clock).balance(self.key.account_id)).balance

    async def expiries(self) -> list[int]:
        found = await rows(
            self.database, "SELECT credits FROM credit_ledger WHERE kind = 'expiry' ORDER BY id"
        )
        return [row.credits for row in found]

    async def assert_sums_hold(self) -> None:
        assert await wrong_sums(self.database, self.key.account_id) == []


@pytest.fixture
def account(database: Database, key: KeyRecord) -> Account:
    return Account(database, key)


async def test_what_is_left_of_a_grant_expires_once(account: Account) -> None:
    await account.grant(1000, None)
    await account.grant(100)
    await account.charge("msg_1", 30)
    expiry = CreditExpiry(account.database, AT_LATER)

    assert (await account.left(), await account.left(AT_LATER)) == (1070, 1000)
    assert await account.expiries() == []
    await expiry.sweep()
    assert (await account.left(), await account.left(AT_LATER)) == (1000, 1000)
    await expiry.sweep()

    assert await account.expiries() == [-70]
    await account.assert_sums_hold()


async def test_a_grant_that_is_spent_expires_with_nothing_left(account: Account) -> None:
    await account.grant(100)
    await account.charge("msg_1", 250)

    await CreditExpiry(account.database, AT_LATER).sweep()

    assert (await account.expiries(), await account.left()) == ([0], -150)


async def test_several_processes_enter_an_expiry_once(account: Account, database_url: str) -> None:
    await account.ledger().change_mode(account.key.account_id, "prepaid")
    for number in range(5):
        await account.grant(100 + number, SOON + timedelta(hours=number), number % 3)
    run = RunKey(account.key.account_id, RunId("run-1"))

    async with an_open_database(database_url) as one, an_open_database(database_url) as other:
        ledgers = [CreditLedger(each, AT_LATER) for each in (one, other)]
        sweeps = [CreditExpiry(each, AT_LATER).sweep() for each in (one, other) * 3]
        reads = [ledger.balance(account.key.account_id) for ledger in ledgers * 3]
        holds = [ledger.resize_reservation(run, Amount(1, 0)) for ledger in ledgers * 3]
        _, credits_, spendable = await asyncio.gather(
            *(asyncio.gather(*sweeps), asyncio.gather(*reads), asyncio.gather(*holds))
        )

    assert {credit.balance for credit in credits_} == {0}
    assert {each and each.credits for each in spendable} == {0}
    assert sorted(await account.expiries()) == [-104, -103, -102, -101, -100]
    assert await account.left() == 0
    await account.assert_sums_hold()


async def test_nothing_is_reserved_of_what_has_expired(account: Account) -> None:
    await account.ledger().change_mode(account.key.account_id, "prepaid")
    await account.grant(100)
    run = RunKey(account.key.account_id, RunId("run-1"))

    before = await account.ledger().resize_reservation(run, Amount(40, 0))
    assert before == Spendable(100, has_budgets=False, has_due=False)
    async with account.database.transaction() as tx:
        await account.ledger().release(tx, run)
    with pytest.raises(InsufficientCredits):
        async with account.database.transaction() as tx:
            await account.ledger(AT_LATER).reserve(tx, run, 40)
    after = await account.ledger(AT_LATER).resize_reservation(run, Amount(40, 0))
    assert after == before._replace(credits=0)
    assert await account.expiries() == [-100]


async def test_a_grant_pays_for_messages_that_began_before_it_expired(account: Account) -> None:
    await account.grant(100)
    await account.grant(100, LATER - timedelta(days=1))
    await account.charge("msg_1", 30, SOON - timedelta(microseconds=1))
    await account.charge("msg_2", 20, SOON)

    await CreditExpiry(account.database, AT_LATER).sweep()

    assert await account.expiries() == [-70, -80]
    assert await account.left() == 0
    await account.assert_sums_hold()


async def test_new_credit_is_not_spent_on_what_was_before(account: Account) -> None:
    await account.grant(100)
    await account.charge("msg_1", 60)

    await account.ledger(AT_LATER).adjust(account.key.account_id, 5)

    assert await account.expiries() == [-40]
    assert await account.left() == 5


async def test_a_grant_is_repeated_with_its_terms_only(account: Account) -> None:
    grant, account_id = account.ledger().grant, account.key.account_id
    for _ in range(2):
        credit = await grant(account_id, 100, reference="invoice-1", terms=GrantTerms(SOON, 1))
        assert credit.granted == 100
    for other in (GrantTerms(), GrantTerms(LATER, 1), GrantTerms(SOON, 2)):
        with pytest.raises(ReferenceTaken):
            await grant(account_id, 100, reference="invoice-1", terms=other)
    with pytest.raises(Invalid):
        await grant(account_id, 100, terms=GrantTerms(NOW - timedelta(seconds=1)))
