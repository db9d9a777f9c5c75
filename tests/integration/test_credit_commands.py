"""`runtally credits`, on a database of its own."""

import pytest

from app.auth.accounts import AccountNotFound, Accounts
from app.billing.credit.ledger import CreditLedger
from app.billing.credit.records import CreditBalance
from app.cli.commands import credits as commands
from app.errors import Invalid
from app.platform.db import Database
from app.platform.pagination import PageRequest
from tests.factories import an_account


@pytest.fixture(autouse=True)
def _of_the_database(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)


async def find_balance(database: Database, account: str = "acme") -> CreditBalance:
    return await CreditLedger(database).balance((await Accounts(database).find_by_name(account)).id)


async def test_what_is_granted_and_adjusted_is_shown(
    database: Database, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await an_account(database)
    monkeypatch.setenv("COLUMNS", "200")

    await commands.grant("acme", "5")
    await commands.adjust("acme", "-1.5", "typo")
    await commands.show("acme")

    credit = await find_balance(database)
    assert (credit.granted, credit.adjusted) == (50_000_000, -15_000_000)
    assert "3.5000000" in capsys.readouterr().out.splitlines()[-1]


async def test_no_credit_command_creates_an_account(database: Database) -> None:
    with pytest.raises(AccountNotFound):
        await commands.show("nobody")
    with pytest.raises(AccountNotFound):
        await commands.grant("nobody", "5")
    with pytest.raises(AccountNotFound):
        await commands.terms("nobody", "prepaid")

    assert await Accounts(database).list_accounts(PageRequest(1)) == ([], None)


@pytest.mark.parametrize("dollars", ["much", "-Infinity", "0.00000001", "1e999999", "0", "-1"])
async def test_an_invalid_grant_changes_nothing(database: Database, dollars: str) -> None:
    await an_account(database)

    with pytest.raises(Invalid):
        await commands.grant("acme", dollars)

    assert await find_balance(database) == CreditBalance()


async def test_repricing_reports_that_there_was_nothing_to_do(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    await an_account(database)

    await commands.reprice()

    assert capsys.readouterr().out.splitlines() == ["0 receipts adjusted, 0.0000000000 USD."]
