"""`runtally credits`, on a database of its own."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from app.auth.accounts import AccountNotFound, Accounts
from app.billing.credit.ledger import CreditLedger
from app.billing.credit.records import CreditBalance
from app.cli.credits import change_credit, change_mode, reprice_receipts, show_credit
from app.errors import Invalid
from app.platform.db import Database
from app.platform.pagination import PageRequest
from app.platform.settings import Settings
from tests.factories import an_account


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return Settings.load(DATABASE_URL=database_url, RUNTALLY_DATA_DIR=tmp_path)


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=200)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


async def find_balance(database: Database, account: str = "acme") -> CreditBalance:
    return await CreditLedger(database).balance((await Accounts(database).find_by_name(account)).id)


async def test_what_is_granted_and_adjusted_is_shown(
    database: Database, settings: Settings, console: Console
) -> None:
    await an_account(database)

    await change_credit(settings, console, "acme", kind="grant", dollars="5", note=None)
    await change_credit(settings, console, "acme", kind="adjust", dollars="-1.5", note="typo")
    await show_credit(settings, console, "acme")

    credit = await find_balance(database)
    assert (credit.granted, credit.adjusted) == (50_000_000, -15_000_000)
    assert "3.5000000" in printed(console).splitlines()[-1]


async def test_no_credit_command_creates_an_account(
    database: Database, settings: Settings, console: Console
) -> None:
    with pytest.raises(AccountNotFound):
        await show_credit(settings, console, "nobody")
    with pytest.raises(AccountNotFound):
        await change_credit(settings, console, "nobody", kind="grant", dollars="5", note=None)
    with pytest.raises(AccountNotFound):
        await change_mode(settings, console, "nobody", mode="prepaid")

    assert await Accounts(database).list_accounts(PageRequest(1)) == ([], None)


@pytest.mark.parametrize("dollars", ["much", "-Infinity", "0.00000001", "1e999999", "0", "-1"])
async def test_an_invalid_grant_changes_nothing(
    database: Database, settings: Settings, console: Console, dollars: str
) -> None:
    await an_account(database)

    with pytest.raises(Invalid):
        await change_credit(settings, console, "acme", kind="grant", dollars=dollars, note=None)

    assert await find_balance(database) == CreditBalance()


async def test_repricing_reports_that_there_was_nothing_to_do(
    database: Database, settings: Settings, console: Console
) -> None:
    await an_account(database)

    await reprice_receipts(settings, console)

    assert printed(console).splitlines() == ["0 receipts adjusted, 0.0000000000 USD."]
