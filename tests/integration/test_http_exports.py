"""Exports for tools of finance have what the receipts have, to the last digit."""

import asyncio
import csv
import io
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from pyarrow.parquet import read_table

from app.auth.records import KeyRecord
from app.billing.exports.focus import COLUMNS
from app.billing.prices.price_list import PriceList
from app.billing.prices.quote import BilledUsage
from app.billing.receipts.records import NewReceipt
from app.billing.receipts.repository import insert_receipts
from app.platform.db import Database
from app.platform.pagination import MAX_PAGE
from app.usage.records import TokenUsage
from tests.clients.quick_starts import programs
from tests.e2e.stories import World, a_client
from tests.e2e.test_the_commands import command, of_program
from tests.factories import a_fact
from tests.integration.conftest import in_shared_world

pytestmark = in_shared_world

DAY = datetime(2026, 10, 30, tzinfo=UTC)
PERIOD = {"from": "2026-10-01T00:00:00Z", "to": "2026-11-01T00:00:00Z"}
MESSAGES = MAX_PAGE + 3


async def charge(database: Database, key: KeyRecord, messages: int) -> None:
    """Messages of two days, with a markup: each has another cost."""
    prices, receipts = PriceList(markup=Decimal("1.17")), []
    for number in range(messages):
        at = DAY + timedelta(minutes=number)
        usage = TokenUsage(input_tokens=997 + number, output_tokens=101, cache_read_tokens=333)
        fact = a_fact(key, f"msg_{number}", f"run-{number % 3}", usage=usage, at=at)
        receipts.append(NewReceipt.of(fact, prices.charge(BilledUsage.of(fact), at=at), "final"))
    async with database.transaction() as tx:
        await insert_receipts(tx, receipts)


@pytest_asyncio.fixture(loop_scope="module")
async def billed(world: World) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    """An account with more receipts than a page has, and another account with some; the key's secret."""
    accounts = world.services.accounts
    name = f"billed-{datetime.now(UTC).timestamp()}"
    key, secret = await accounts.create_key(name, ["receipts:read"], name="=production")
    other, _ = await accounts.create_key(f"other-{name}", ["receipts:read"])
    await charge(world.services.database, key, MESSAGES)
    await charge(world.services.database, other, 2)
    async with a_client(world.url, secret) as http:
        yield http, secret


async def rows_of(http: httpx.AsyncClient, format_: str) -> list[dict[str, Any]]:
    response = await http.get("/v1/exports/focus", params={**PERIOD, "format": format_})
    assert response.headers["content-disposition"] == f'attachment; filename="focus.{format_}"'
    if format_ == "parquet":
        return list(read_table(io.BytesIO(response.raise_for_status().content)).to_pylist())
    return list(csv.DictReader(io.StringIO(response.raise_for_status().text)))


async def test_both_formats_have_the_receipts_of_the_account_exactly(
    billed: tuple[httpx.AsyncClient, str],
) -> None:
    http, _ = billed
    lines, table = await rows_of(http, "csv"), await rows_of(http, "parquet")
    total = (await http.get("/v1/usage", params=PERIOD)).json()["total"]

    assert list(lines[0]) == list(table[0]) == list(COLUMNS)
    assert len(lines) == len(table) == 3 * MESSAGES
    assert len({line["x_ReceiptId"] for line in lines}) == MESSAGES == total["receipts"]
    for rows in (lines, table):
        assert sum(Decimal(row["ListCost"]) for row in rows) == Decimal(total["costUsd"])
        assert sum(Decimal(row["BilledCost"]) for row in rows) * 10_000_000 == total["chargedCredits"]
        tokens = sum(Decimal(row["PricingQuantity"]) for row in rows if row["SkuMeter"] == "Input Tokens")
        assert tokens == total["inputTokens"]
    # No spreadsheet takes the name of a key for a formula; other programs get it as it is.
    assert {line["SubAccountName"] for line in lines} == {"'=production"}
    assert {row["SubAccountName"] for row in table} == {"=production"}


async def test_the_command_writes_what_the_server_sends(
    world: World, billed: tuple[httpx.AsyncClient, str], tmp_path: Path
) -> None:
    http, secret = billed
    variables = {"RUNTALLY_URL": world.url, "RUNTALLY_API_KEY": secret}
    export = ["export", "focus", "--from", "2026-10-01", "--to"]

    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "app", *export, "2026-10-31"],
        env=of_program(tmp_path, **variables),
        capture_output=True,
    )
    backwards = await command(tmp_path, *export, "2026-09-01", **variables)
    elsewhere = {**variables, "RUNTALLY_URL": "http://127.0.0.1:9"}
    lost = await command(tmp_path, *export, "2026-10-31", **elsewhere)
    response = await http.get("/v1/exports/focus", params=PERIOD)

    assert (done.returncode, done.stdout) == (0, response.content)
    assert (backwards.exit_code, "to: must be later than from" in backwards.output) == (2, True)
    assert (lost.exit_code, "No server can be reached at http://127.0.0.1:9" in lost.output) == (1, True)


@pytest.mark.parametrize("title", ["pandas", "DuckDB"])
async def test_the_programs_of_the_document_are_exact(
    world: World, billed: tuple[httpx.AsyncClient, str], tmp_path: Path, title: str
) -> None:
    http, secret = billed
    (program,) = (text for chapter, text in programs("FINOPS.md", "python") if chapter == title)
    table = await http.get("/v1/exports/focus", params={**PERIOD, "format": "parquet"})
    (tmp_path / "focus.parquet").write_bytes(table.content)
    variables = {"RUNTALLY_URL": world.url, "RUNTALLY_API_KEY": secret}
    environment = {**os.environ, **of_program(tmp_path, **variables), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", program],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    total = (await http.get("/v1/usage")).json()["total"]
    charged = Decimal(total["chargedCredits"]) / 10_000_000

    assert done.returncode == 0, done.stderr
    found = [Decimal(each) for each in done.stdout.splitlines()[-1].split()[1:]]
    assert found == [Decimal(total["costUsd"]), charged][: len(found)]
    assert "claude-sonnet-4-6" in done.stdout
