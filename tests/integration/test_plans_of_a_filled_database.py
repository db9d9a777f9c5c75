"""What is done all day finds its rows by index: plans that PostgreSQL executes in a filled database."""

import re
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from os import SEEK_END
from pathlib import Path
from typing import BinaryIO

import asyncpg
import pytest

from app.platform.db import Database
from benchmarks.filled_years import MESSAGES, Filled, filled_database
from benchmarks.years import OPERATIONS

pytestmark = pytest.mark.long

RECEIPTS, OF_ONE_ACCOUNT = 20_000, 1_000
GROWING = ("charge_receipts", "credit_ledger", "chain_links", "runs", "run_events", "usage_rollups")
"""Tables with rows of all years."""
EXPLAINED = {
    "session_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_nested_statements": "on",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_timing": "off",
}
MANY = {"Filter": RECEIPTS // 10, "Index Recheck": RECEIPTS // 2}
"""Rows that a statement may read and not use: of six ranges of pages, the two at the ends of a period."""


@asynccontextmanager
async def explained(filled: Filled, directory: Path) -> AsyncIterator[tuple[Filled, BinaryIO]]:
    """The same database, and the log, in which its server writes the plan of each statement."""
    for name, value in EXPLAINED.items():
        await filled.connection.execute(f"ALTER DATABASE postgres SET {name} = '{value}'")
    log, url = (directory / "postgres" / name for name in ("log", "url"))
    database, connection = await Database.open(url.read_text()), await asyncpg.connect(url.read_text())
    try:
        with log.open("rb") as written:
            yield replace(filled, database=database, connection=connection), written
    finally:
        await connection.close()
        await database.aclose()


async def scanned(operation: Awaitable[object], log: BinaryIO) -> set[str]:
    """The growing tables that an operation reads from beginning to end, and the rows it reads in vain."""
    log.seek(0, SEEK_END)
    await operation
    # A plan is logged before its result is sent.
    plans = log.read().decode()
    assert "Query Text:" in plans
    in_vain = re.findall(r"Rows Removed by (Filter|Index Recheck): (\d+)", plans)
    tables = re.findall(rf"Seq Scan on ({'|'.join(GROWING)})\b", plans)
    return {*tables, *(rows for why, rows in in_vain if int(rows) > MANY[why])}


async def test_no_operation_reads_a_whole_table_that_grows(migrated_path: Path) -> None:
    async with (
        filled_database(migrated_path, RECEIPTS, OF_ONE_ACCOUNT) as filled,
        explained(filled, migrated_path) as (database, log),
    ):
        by_model = database.connection.fetchval("SELECT count(*) FROM runs WHERE model = 'none'")
        assert await scanned(by_model, log) == {"runs", str(RECEIPTS // MESSAGES)}

        for name, (_, operation) in OPERATIONS.items():
            assert await scanned(operation(database), log) == set(), name
