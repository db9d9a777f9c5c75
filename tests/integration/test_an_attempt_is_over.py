"""What an attempt of a run writes after another process has taken the run over."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest
from claude_agent_sdk import SessionKey, SessionStoreEntry
from sqlalchemy import text

from app.auth.records import KeyRecord
from app.billing.credit.ledger import CreditLedger
from app.billing.prices.price_list import PriceList
from app.billing.receipts.delivery import ReceiptDelivery
from app.billing.receipts.journal import Journal
from app.billing.receipts.queue import ReceiptQueue
from app.billing.reconciliation.records import Window
from app.billing.reconciliation.repository import find_recorded
from app.billing.reports.service import BillingReports
from app.conversations.records import Transcript, TranscriptEntry, TranscriptState
from app.conversations.sdk_store import CliSessionStore
from app.conversations.transcript_store import TranscriptStore
from app.ids import RunId, RunKey, new_uuid
from app.platform.db import AttemptOver, Database, require_attempt
from app.runs.dispatch.records import Worker
from app.runs.records import NewRun
from app.runs.recovery.repository import record_takeovers, record_worker
from app.runs.repository import find_run, store_interruption
from app.runs.requeueing.repository import requeue_run
from app.usage.records import TokenUsage, UsageFact
from app.workspaces.records import GivenFile
from app.workspaces.service import Workspaces
from app.workspaces.spec import WorkspaceSpec
from app.workspaces.workspace import Workspace
from tests.factories import a_fact, an_account
from tests.integration.run_process import ELSEWHERE, insert
from tests.integration.statements import scalar

SPEC = WorkspaceSpec()


async def a_run(database: Database) -> tuple[KeyRecord, RunKey]:
    key = await an_account(database)
    run = RunKey(key.account_id, RunId("run-1"))
    async with database.transaction() as tx:
        await insert(tx, NewRun(run, key.id, "a:b", "m", "{}", "", b"", None, ELSEWHERE))
        await Workspaces(database, []).reserve(tx, run, SPEC, {})
    return key, run


async def take_over(database: Database, run: RunKey, *, is_resumed: bool = True) -> None:
    async with database.transaction() as tx:
        record = await find_run(tx, run)
        assert record is not None
        await record_takeovers(tx, [record])
        if is_resumed:
            await requeue_run(tx, run)


@dataclass
class Writer:
    """A process that executes an attempt of the run."""

    database: Database
    run: RunKey
    directory: Path

    async def of_cli(self, attempt: int) -> None:
        store = CliSessionStore(TranscriptStore(self.database), uuid4())
        store.attach(self._transcript, self.run, attempt, state=TranscriptState())
        await store.append(SessionKey(project_key="-", session_id="s"), [cast("SessionStoreEntry", a_line())])

    async def of_messages(self, attempt: int) -> None:
        entries = [TranscriptEntry(a_line(), self.run.run_id, attempt), TranscriptEntry(a_line(), None)]
        await TranscriptStore(self.database).add(self._transcript, entries)

    async def of_files(self, attempt: int) -> None:
        workspace = Workspace(SPEC, [], [GivenFile(f"{attempt}.txt", b"x", origin="uploaded")])
        workspace.populate(self.directory)
        await Workspaces(self.database, []).store_outputs(self.run, attempt, workspace=workspace)

    async def of_kept_files(self, attempt: int) -> None:
        files = [GivenFile(f"{attempt}.txt", b"x", origin="uploaded")]
        workspace = Workspace(WorkspaceSpec(keep="conversation"), [], files, keeps=True)
        workspace.populate(self.directory)
        await Workspaces(self.database, []).store_outputs(self.run, attempt, workspace=workspace)

    async def written(self) -> Sequence[object]:
        """Everything that an attempt could change."""
        tables = ("session_entries", "workspace_files", "file_contents", "workspaces", "runs")
        async with self.database.read() as reader:
            return [(await reader.execute(text(f"SELECT * FROM {each}"))).all() for each in tables]  # noqa: S608

    @property
    def _transcript(self) -> Transcript:
        return Transcript(str(self.run.account_id), "session")


def a_line() -> dict[str, Any]:
    return {"type": "user", "uuid": str(uuid4())}


@pytest.mark.parametrize(
    ("write", "is_resumed"),
    list(product([Writer.of_cli, Writer.of_messages, Writer.of_files, Writer.of_kept_files], [True, False])),
)
async def test_it_writes_nothing_more(
    database: Database, tmp_path: Path, write: Callable[[Writer, int], Awaitable[None]], *, is_resumed: bool
) -> None:
    _, run = await a_run(database)
    writer = Writer(database, run, tmp_path)
    await write(writer, 0)
    await take_over(database, run, is_resumed=is_resumed)
    before = await writer.written()

    with pytest.raises(AttemptOver):
        await write(writer, 0)

    assert await writer.written() == before
    if is_resumed:
        await write(writer, 1)
        assert await writer.written() != before


async def test_a_takeover_waits_for_what_is_being_written(database: Database) -> None:
    _, run = await a_run(database)
    async with database.transaction() as writing:
        await require_attempt(writing, run, 0)
        taking_over = asyncio.create_task(take_over(database, run))
        done, _ = await asyncio.wait({taking_over}, timeout=0.2)
        assert not done
    await taking_over

    with pytest.raises(AttemptOver):
        async with database.transaction() as tx:
            await require_attempt(tx, run, 0)


async def test_the_state_of_its_stop_is_not_stored(database: Database) -> None:
    _, run = await a_run(database)
    await take_over(database, run)
    async with database.write() as tx:
        await store_interruption(tx, run, {"kind": "cancel"}, attempt=0)
    async with database.read() as reader:
        record = await find_run(reader, run)

    assert record is not None
    assert record.interruption is None


async def deliver(database: Database, directory: Path, *facts: UsageFact) -> None:
    """Deliver the receipts of these messages as a process does."""
    journal = Journal(directory, new_uuid())
    queue = ReceiptQueue(journal, PriceList())
    delivery = ReceiptDelivery(database, queue)
    for fact in facts:
        queue.record(fact)
    await delivery.aclose()
    assert len(queue) == 0
    journal.close()


@pytest.mark.parametrize("ahead_s", [0, 600, -600])
async def test_only_messages_that_began_before_the_takeover_are_charged(
    database: Database, tmp_path: Path, ahead_s: float
) -> None:
    """Also if the clock of their process is not the database's."""
    key, run = await a_run(database)
    async with database.write() as tx:
        await record_worker(
            tx, Worker(ELSEWHERE, "1", 1, 0, draining=False, lease_s=15, clock_ahead_s=ahead_s)
        )
    now = datetime.now(UTC) + timedelta(seconds=ahead_s)
    before, after = now - timedelta(seconds=10), now + timedelta(seconds=10)
    await take_over(database, run)
    open_message, zombies = a_fact(key, "msg_1", at=before), a_fact(key, "msg_2", at=after)
    resumed = a_fact(key, "msg_3", at=after, attempt=1)

    await deliver(database, tmp_path / "1", open_message, zombies, resumed)
    # The same again, from another journal: one has a larger count.
    more = replace(zombies, usage=TokenUsage(input_tokens=1000, output_tokens=900))
    await deliver(database, tmp_path / "2", open_message, more, resumed)

    receipts = await BillingReports(database).of_run(run)
    assert {(receipt.usage_unit_id, receipt.attempt) for receipt in receipts} == {("msg_1", 0), ("msg_3", 1)}
    balance = await CreditLedger(database).balance(run.account_id)
    assert balance.spent == sum(receipt.charged_credits for receipt in receipts)
    async with database.read() as reader:
        rows = (await reader.execute(text("SELECT * FROM fenced_receipts ORDER BY source_reference"))).all()
        recorded = await find_recorded(reader, Window(now - timedelta(hours=1), now + timedelta(hours=1)))
    assert [(row.usage_unit_id, row.basis, row.charged_credits) for row in rows] == [
        ("msg_2", "fenced", 0),
        ("msg_2~more", "fenced", 0),
    ]
    assert all(row.cost_usd > 0 for row in rows)
    # The provider charges them all.
    assert sum(each.receipts for each in recorded) == 4
    charged = sum(receipt.cost_usd for receipt in receipts)
    assert sum(each.cost_usd for each in recorded) == charged + sum(row.cost_usd for row in rows)


async def test_a_process_that_stands_still_in_a_transaction_does_not_hold_its_locks_for_ever(
    database: Database,
) -> None:
    limit = await scalar(database, "SHOW idle_in_transaction_session_timeout")

    assert limit == "10s"
