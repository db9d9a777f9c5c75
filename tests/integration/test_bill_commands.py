"""`runtally ledger` and `runtally statements` show what the API shows, from the database."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from anyio import fail_after, to_thread
from typer.testing import CliRunner

from app.billing.credit.ledger import CreditLedger
from app.billing.credit.records import GrantTerms
from app.billing.statements.service import StatementMaker
from app.cli.main import app
from app.platform.clock.clock import Clock
from app.platform.db import Database
from tests.factories import an_account
from tests.integration.chain_books import a_sealer
from tests.integration.webhook_seam import charge
from tests.patience import PATIENCE_S

Run = Callable[..., Awaitable[str]]


@pytest.fixture
def run(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command, and checks its exit code."""
    monkeypatch.setenv("DATABASE_URL", database_url)

    async def printed(*arguments: str, code: int = 0) -> str:
        with fail_after(PATIENCE_S):
            result = await to_thread.run_sync(CliRunner().invoke, app, arguments)
        assert result.exit_code == code, result.output
        return result.output

    return printed


async def test_the_ledger_is_listed_with_balances_and_terms_of_its_account_only(
    database: Database, run: Run
) -> None:
    key, other = await an_account(database), await an_account(database, "other")
    expires_at = datetime.now(UTC).replace(microsecond=0) + timedelta(days=9)
    terms = GrantTerms(expires_at, priority=-2)
    await CreditLedger(database).grant(key.account_id, 100_000, note="invoice 7", terms=terms)
    await CreditLedger(database).grant(other.account_id, 777, note="not theirs")
    await charge(database, key, "msg_1", credits_=30_000)

    debit, grant = json.loads(await run("ledger", "acme", "--json"))
    (newest,) = json.loads(await run("ledger", "acme", "--limit", "1", "--json"))
    table = await run("ledger", "acme")
    unknown = await run("ledger", "nobody", code=2)

    assert (debit["kind"], debit["credits"], debit["balanceAfter"]) == ("debit", -30_000, 70_000)
    assert (grant["amountUsd"], grant["priority"], grant["note"]) == ("0.0100000000", -2, "invoice 7")
    assert datetime.fromisoformat(grant["expiresAt"]) == expires_at
    assert newest == debit
    assert "invoice" in table
    assert "not theirs" not in table
    assert "no account of this name" in unknown


async def test_statements_are_listed_printed_and_written(
    database: Database, run: Run, tmp_path: Path
) -> None:
    key = await an_account(database)
    await CreditLedger(database).grant(key.account_id, 100_000)
    await charge(database, key, "msg_1", credits_=30_000)
    later = Clock(lambda: datetime.now(UTC) + timedelta(days=40))
    await StatementMaker(database, a_sealer(database, None, tmp_path), later).make_due()
    file = tmp_path / "statement.pdf"

    (*_, listed) = json.loads(await run("statements", "acme", "--json"))
    shown = json.loads(await run("statements", "acme", listed["month"], "--json"))
    read = [line.split() for line in (await run("statements", "acme", listed["month"])).splitlines()]
    table = await run("statements", "acme")
    await run("statements", "acme", listed["month"], "--pdf", str(file))
    missing = await run("statements", "acme", "2020-01", code=2)
    no_month = await run("statements", "acme", "--pdf", str(file), code=2)

    assert (listed["closingUsd"], shown["closing"]) == ("0.0070000000", 70_000)
    assert (shown["grants"], shown["charges"], shown["month"]) == (100_000, -30_000, listed["month"])
    assert read[0] == ["Statement", "of", listed["month"]]
    assert ["grants", "0.0100000000"] in read
    assert ["charges", "-0.0030000000"] in read
    assert ["closing", "0.0070000000"] in read
    assert ["claude-sonnet-4-6", "1", "-0.0030000000"] in read
    assert read[-1][:2] == ["Not", "signed;"]
    assert listed["month"] in table
    assert file.read_bytes().startswith(b"%PDF")
    assert "no statement of this month" in missing
    assert "needs a month" in no_month
