"""Statements of finished months: made once, signed, and sums of the ledger."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.auth.records import KeyRecord
from app.billing.chain.sealing_key import SealingKey
from app.billing.credit.ledger import CreditLedger
from app.billing.credit.records import GrantTerms, month_of
from app.billing.statements.records import Statement, content_of, month_after, month_before, month_start
from app.billing.statements.service import SETTLED_AFTER, StatementMaker, StatementNotFound, Statements
from app.ids import AccountId
from app.platform.clock.clock import Clock
from app.platform.db import Database, StatementFailed
from tests.factories import an_account, an_open_database
from tests.integration.chain_books import a_sealer
from tests.integration.charging import charge
from tests.integration.statements import execute, scalar

NOW = datetime.now(UTC)
FIRST = month_of(NOW)
SECOND = month_after(FIRST)
TICK = timedelta(microseconds=1)


def end_of(month: str) -> datetime:
    return month_start(month_after(month))


async def make(database: Database, directory: Path, month: str, key: SealingKey | None = None) -> None:
    """Make what is missing as soon as this month's statement is due."""
    due = end_of(month) + SETTLED_AFTER
    await StatementMaker(database, a_sealer(database, key, directory), Clock(host=lambda: due)).make_due()


async def statement_of(database: Database, account_id: AccountId, month: str) -> Statement:
    return content_of(await Statements(database).get(account_id, month))


def amounts(statement: Statement) -> int:
    late = sum(each.credits for each in statement.late_charges)
    booked = statement.grants + statement.adjustments + statement.expiries
    return statement.opening + booked + statement.charges + late


async def test_a_statement_has_what_its_month_has(database: Database, key: KeyRecord, tmp_path: Path) -> None:
    ledger, account = CreditLedger(database), key.account_id
    await ledger.grant(account, 1000)
    await ledger.adjust(account, -7)
    await charge(database, key, "msg_1", 300, at=end_of(FIRST) - TICK)
    await charge(database, key, "msg_2", 50, at=end_of(FIRST))

    await make(database, tmp_path, month_before(FIRST))
    with pytest.raises(StatementNotFound):
        await Statements(database).get(account, month_before(FIRST))
    await make(database, tmp_path, FIRST)

    first = await statement_of(database, account, FIRST)
    assert (first.opening, first.grants, first.adjustments, first.charges) == (0, 1000, -7, -300)
    assert (first.closing, first.late_charges) == (693, [])
    for parts in (first.by_model, first.by_graph, first.by_key):
        assert [(each.messages, each.credits) for each in parts] == [(1, -300)]
    with pytest.raises(StatementNotFound):
        await Statements(database).get(account, SECOND)


async def test_what_comes_late_is_in_the_next_statement(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    ledger, account = CreditLedger(database), key.account_id
    await ledger.grant(account, 1000, terms=GrantTerms(end_of(SECOND)))
    await charge(database, key, "msg_1", 300, at=NOW)
    await make(database, tmp_path, FIRST)
    made = await Statements(database).get(account, FIRST)

    await charge(database, key, "msg_2", 25, at=NOW)
    await charge(database, key, "msg_3", 60, at=end_of(FIRST))
    await ledger.adjust(account, 9)
    await make(database, tmp_path, SECOND)
    await make(database, tmp_path, month_after(SECOND))

    assert await Statements(database).get(account, FIRST) == made
    second = await statement_of(database, account, SECOND)
    third = await statement_of(database, account, month_after(SECOND))
    assert [(late.month, late.credits) for late in second.late_charges] == [(FIRST, -25)]
    assert (second.opening, second.adjustments, second.charges) == (700, 9, -60)
    assert (third.opening, third.charges, third.late_charges) == (second.closing, 0, [])
    for statement in (content_of(made), second, third):
        assert amounts(statement) == statement.closing
    assert third.closing == (await ledger.balance(account)).balance


async def test_processes_make_the_same_statement_once(
    database: Database, database_url: str, key: KeyRecord, tmp_path: Path
) -> None:
    other = await an_account(database, "globex")
    for each in (key, other):
        await charge(database, each, "msg_1", 10, at=NOW)
    signing = SealingKey.create(tmp_path / "sealing.pem")

    async with an_open_database(database_url) as elsewhere:
        both = (database, elsewhere)
        await asyncio.gather(*(make(each, tmp_path, SECOND, signing) for each in both * 3))

    for each in (key, other):
        found, cursor = await Statements(database).list_statements(each.account_id, before=None, limit=9)
        assert ([stored.month for stored in found], cursor) == ([SECOND, FIRST], None)
        for stored in found:
            assert stored.key is not None
            assert stored.signature is not None
            signing.public_keys[stored.key].verify(stored.signature, stored.content.encode())
            assert content_of(stored).account_id == str(each.account_id)


async def test_a_statement_is_never_changed(database: Database, key: KeyRecord, tmp_path: Path) -> None:
    await charge(database, key, "msg_1", 10, at=NOW)
    await make(database, tmp_path, FIRST)

    for change in ("UPDATE billing_statements SET content = '{}'", "DELETE FROM billing_statements"):
        with pytest.raises(StatementFailed):
            await execute(database, change)


async def test_a_process_without_the_key_leaves_statements_to_others(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    signing = SealingKey.create(tmp_path / "sealing.pem")
    await charge(database, key, "msg_1", 10, at=NOW)
    await a_sealer(database, signing, tmp_path).seal()

    await make(database, tmp_path, FIRST, None)
    assert await scalar(database, "SELECT count(*) FROM billing_statements") == 0
    await make(database, tmp_path, FIRST, signing)

    assert (await Statements(database).get(key.account_id, FIRST)).key == signing.id
