"""Rows of messages in progress: beside receipts that are stored at the same time, refused, unreadable."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from structlog.testing import capture_logs

from app.auth.records import KeyRecord
from app.billing.receipts.open_messages.records import OpenMessage
from app.billing.receipts.open_messages.repository import write_open_messages
from app.billing.receipts.repository import insert_receipts
from app.ids import RunId, RunKey
from app.platform.db import Database
from app.usage.records import TokenUsage, UsageFact
from tests.integration.lost_machines import Machine, a_machine, charged, lose_machine, rows, used
from tests.patience import PATIENCE_S


async def test_a_row_adds_nothing_to_a_receipt(database: Database, key: KeyRecord, tmp_path: Path) -> None:
    """Its output is an estimate, and may be higher than what was counted in the end."""
    async with database.write() as tx:
        await write_open_messages(tx, [OpenMessage(used(112, key), is_complete=False)])
    async with a_machine(database, tmp_path) as machine:
        await machine.rows.sweep(age_s=0)
        async with database.transaction() as tx:
            other = await a_receipt(machine, used(100, key))
            await insert_receipts(tx, [other])
        await machine.deliver()

    assert await charged(database, used(0, key).run) == [("msg_1", "final", 100)]
    assert await rows(database) == 0


async def test_a_row_that_is_removed_before_its_receipt_is_stored_is_not_charged(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    async with a_machine(database, tmp_path / "a") as frozen, a_machine(database, tmp_path / "b") as here:
        frozen.queue.start_message(used(0, key))
        await frozen.write_rows()
        await here.rows.sweep(age_s=0)
        frozen.queue.void_message(used(0, key))
        await frozen.write_rows()
        await here.deliver()

    assert await charged(database, used(0, key).run) == []


async def a_receipt(machine: Machine, fact: UsageFact) -> Any:
    """The receipt that another process makes of a fact."""
    machine = Machine.on(machine.database, machine.journal._directory / "other")
    machine.queue.record(fact)
    (pending,) = machine.queue.first(1)
    machine.journal.close()
    return pending.receipt


@pytest.mark.parametrize("was_written", [False, True])
async def test_a_row_that_is_written_while_its_receipt_is_stored_is_not_charged(
    database: Database, key: KeyRecord, tmp_path: Path, *, was_written: bool
) -> None:
    async with a_machine(database, tmp_path / "a") as frozen, a_machine(database, tmp_path / "b") as here:
        frozen.queue.start_message(used(16, key))
        if was_written:
            await frozen.write_rows()
            frozen.queue.update_message(used(32, key))
        async with database.transaction() as tx:
            await insert_receipts(tx, [await a_receipt(here, used(100, key))])
            writing = asyncio.create_task(frozen.write_rows())
            # Until it is done, or waits for this transaction.
            await asyncio.wait({writing}, timeout=0.1)
        await writing
        await here.sweep()
        await here.sweep()

    assert await charged(database, used(0, key).run) == [("msg_1", "final", 100)]
    assert await rows(database) == 0


async def test_a_receipt_that_is_stored_while_its_row_is_written_is_not_charged_again(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    async with a_machine(database, tmp_path / "a") as here:
        async with database.transaction() as tx:
            await write_open_messages(tx, [OpenMessage(used(16, key), is_complete=False)])
            here.queue.record(used(100, key))
            await here.deliver()
        between = await rows(database)
        await here.sweep()

    assert between == 1
    assert await charged(database, used(0, key).run) == [("msg_1", "final", 100)]
    assert await rows(database) == 0


async def test_a_row_that_the_database_refuses_is_given_up(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    refused = replace(used(16, key, "msg_bad"), run=RunKey(key.account_id, RunId("run-\x00")))
    async with a_machine(database, tmp_path) as machine:
        machine.queue.start_message(refused)
        machine.queue.start_message(used(16, key))
        with capture_logs() as logs:
            await machine.write_rows()
            machine.queue.update_message(replace(refused, usage=TokenUsage(output_tokens=32)))
            await machine.write_rows()
        machine.queue.record(used(100, key))
        await machine.deliver()

    assert [entry["event"] for entry in logs] == ["open_message.refused"]
    assert await charged(database, used(0, key).run) == [("msg_1", "final", 100)]


async def test_receipts_are_stored_although_rows_cannot_be_written(
    database: Database, key: KeyRecord, admin: asyncpg.Connection, tmp_path: Path
) -> None:
    async with a_machine(database, tmp_path) as machine:
        machine.queue.start_message(used(16, key, "msg_open"))
        machine.queue.start_message(used(16, key))
        machine.queue.record(used(100, key))
        await admin.execute("ALTER TABLE open_messages ADD CHECK (false) NOT VALID")
        with capture_logs() as logs:
            await machine.write_rows()
        await machine.deliver()

    assert [entry["event"] for entry in logs] == ["open_message.refused"]
    assert await charged(database, used(0, key).run) == [("msg_1", "final", 100)]


async def test_a_row_that_cannot_be_read_blocks_no_other(
    database: Database, key: KeyRecord, admin: asyncpg.Connection, tmp_path: Path
) -> None:
    await lose_machine(database, tmp_path / "lost", used(100, key, "msg_1"), used(100, key, "msg_2"))
    await admin.execute("UPDATE open_messages SET fact = '{}' WHERE source_reference LIKE '%msg_1'")
    async with a_machine(database, tmp_path / "here") as here:
        with capture_logs() as logs:
            await here.sweep()

    assert [entry["event"] for entry in logs] == ["receipt.recovery_failed", "open_message.recovered"]
    assert await charged(database, used(0, key).run) == [("msg_2", "partial", 100)]


async def test_a_server_writes_its_messages_and_charges_those_that_were_left(
    database: Database, key: KeyRecord, admin: asyncpg.Connection, tmp_path: Path
) -> None:
    await lose_machine(database, tmp_path / "lost", used(100, key, "msg_left"))
    await admin.execute("UPDATE open_messages SET updated_at = now() - interval '1 hour'")
    async with a_machine(database, tmp_path) as machine:
        machine.queue.start_message(used(16, key))
        machine.seconds += 1
        working = asyncio.create_task(machine.rows.work())
        async with asyncio.timeout(PATIENCE_S):
            await machine.queue.wait_not_empty()
        await machine.deliver()
        working.cancel()
        await asyncio.wait({working})

    assert await charged(database, used(0, key).run) == [("msg_left", "partial", 100)]
    assert await rows(database) == 1
