"""`verify` of statements: what was changed in one is found, and nothing else."""

import io
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio
from rich.console import Console
from sqlalchemy import Executable, and_, delete, text, update

from app.auth.records import KeyRecord
from app.billing.chain.sealing_key import SealingKey
from app.billing.credit.expiry.service import expire_due
from app.billing.credit.ledger import CreditLedger
from app.billing.credit.records import GrantTerms
from app.billing.credit.repository import lock_balance
from app.billing.statements.records import month_after
from app.billing.statements.tables import billing_statements
from app.billing.statements.verification import wrong_statements
from app.cli.chain import verify_database
from app.platform.db import Database
from app.platform.settings import Settings
from tests.factories import an_account
from tests.integration.charging import charge
from tests.integration.statements import scalar
from tests.integration.test_statements import FIRST, NOW, SECOND, end_of, make

THIRD = month_after(SECOND)


@pytest_asyncio.fixture
async def signing(database: Database, key: KeyRecord, tmp_path: Path) -> SealingKey:
    """The key of three statements of two accounts, with grants, an expiry and late charges."""
    ledger, signing = CreditLedger(database), SealingKey.create(tmp_path / "sealing.pem")
    for each in (await an_account(database, "other"), key):
        await ledger.grant(each.account_id, 1000, terms=GrantTerms(end_of(SECOND)))
        await charge(database, each, "msg_1", 300, at=NOW)
        await make(database, tmp_path, FIRST, signing)
        await charge(database, each, "msg_2", 25, at=NOW)
        async with database.transaction() as tx:
            await lock_balance(tx, each.account_id)
            await expire_due(tx, each.account_id, end_of(SECOND))
        await ledger.adjust(each.account_id, -9)
        await make(database, tmp_path, THIRD, signing)
    return signing


async def change(database: Database, account: KeyRecord, month: str, **columns: Any) -> None:
    """Change columns of a statement, as a person with every right in the database can."""
    named = and_(billing_statements.c.account_id == account.account_id, billing_statements.c.month == month)
    await execute_past_triggers(database, update(billing_statements).where(named).values(**columns))


async def execute_past_triggers(database: Database, statement: Executable) -> None:
    async with database.transaction() as tx:
        await tx.execute(text("SET LOCAL session_replication_role = replica"))
        await tx.execute(statement)


async def problems(database: Database, key: KeyRecord, signing: SealingKey) -> list[str]:
    found = await wrong_statements(database, signing.public_keys)
    assert found == await wrong_statements(database, signing.public_keys, rows_per_slice=1)
    place = f"account {key.account_id}, statement "
    assert all(each.startswith(place) for each in found)
    return [each.removeprefix(place) for each in found]


async def test_nothing_is_wrong_with_statements_as_they_were_made(
    database: Database, key: KeyRecord, signing: SealingKey
) -> None:
    # What comes later is of the next statement.
    await charge(database, key, "msg_3", 70, at=NOW)

    assert await problems(database, key, signing) == []


@pytest.mark.parametrize(
    ("month", "field", "value"),
    [
        (FIRST, "grants", 2000),
        (FIRST, "charges", -299),
        (SECOND, "adjustments", 0),
        (SECOND, "late_charges", []),
        (SECOND, "late_charges", [{"month": FIRST, "credits": -24}]),
        (SECOND, "expiries", 0),
        (THIRD, "opening", 5),
        (THIRD, "closing", 10**6),
        (THIRD, "chain_hash", "00"),
    ],
)
async def test_a_changed_amount_is_named(
    database: Database, key: KeyRecord, signing: SealingKey, month: str, field: str, value: Any
) -> None:
    said = json.loads(await content(database, key.account_id, month))
    await change(database, key, month, content=json.dumps({**said, field: value}))

    named = await problems(database, key, signing)

    signature, *wrong = [each for each in named if "does not follow" not in each]
    assert signature == f"{month}: its signature is not that of a trusted key"
    assert [each.startswith(f"{month}: its {field} is") for each in wrong] == [True]


async def content(database: Database, account_id: UUID, month: str) -> str:
    query = "SELECT content FROM billing_statements WHERE account_id = :id AND month = :month"
    found: str = await scalar(database, query, id=account_id, month=month)
    return found


@pytest.mark.parametrize("resigned", [False, True])
async def test_a_statement_with_another_text_is_not_followed_by_the_next(
    database: Database, key: KeyRecord, signing: SealingKey, *, resigned: bool
) -> None:
    changed = await content(database, key.account_id, FIRST) + " "
    columns = {"signature": signing.sign(changed)} if resigned else {}
    await change(database, key, FIRST, content=changed, **columns)

    signature = [] if resigned else [f"{FIRST}: its signature is not that of a trusted key"]
    assert await problems(database, key, signing) == [
        *signature,
        f"{SECOND}: it does not follow the one before",
    ]


async def test_what_was_removed_or_is_not_signed_or_not_a_statement_is_named(
    database: Database, key: KeyRecord, signing: SealingKey
) -> None:
    await change(database, key, THIRD, key=None, signature=None)
    assert await problems(database, key, signing) == [f"{THIRD}: it is not signed, but the one before is"]
    await change(database, key, THIRD, content="{}")
    assert await problems(database, key, signing) == [f"{THIRD}: its content cannot be read"]
    of_key = billing_statements.c.account_id == key.account_id
    await execute_past_triggers(
        database, delete(billing_statements).where(of_key, billing_statements.c.month != SECOND)
    )
    assert f"{SECOND}: it does not follow the one before" in await problems(database, key, signing)
    other = await scalar(database, "SELECT id FROM accounts WHERE name = 'other'")
    theirs = await content(database, other, SECOND)
    await change(database, key, SECOND, content=theirs)
    assert f"{SECOND}: it is that of account {other} for {SECOND}" in await problems(database, key, signing)


async def test_a_key_that_is_not_trusted_is_named(
    database: Database, signing: SealingKey, tmp_path: Path
) -> None:
    other = SealingKey.create(tmp_path / "other.pem")

    found = await wrong_statements(database, other.public_keys)

    assert len(found) == 6
    assert all(each.endswith("its signature is not that of a trusted key") for each in found)
    assert signing.id != other.id


@pytest.mark.usefixtures("signing")
async def test_the_command_finds_it_as_well(
    database: Database, database_url: str, key: KeyRecord, tmp_path: Path
) -> None:
    settings = Settings.load(
        DATABASE_URL=database_url,
        RUNTALLY_DATA_DIR=tmp_path,
        RUNTALLY_SEALING_KEY_FILE=tmp_path / "sealing.pem",
    )
    printed = io.StringIO()
    console = Console(file=printed, width=1000)

    assert await verify_database(settings, console, keys=[], earlier=[])
    await change(database, key, THIRD, content=await content(database, key.account_id, SECOND))
    assert not await verify_database(settings, console, keys=[], earlier=[])

    assert f"statement {THIRD}: its signature is not that of a trusted key" in printed.getvalue()
