"""Runs that one statement accepts: it stores no run that the checks one by one would refuse."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from sqlalchemy import text

from app.auth.accounts import Accounts
from app.auth.records import KeyRecord
from app.auth.repository import lock_key, revoke
from app.billing.budgets.service import Budgets
from app.billing.credit.ledger import CreditLedger
from app.ids import RunId, RunKey
from app.platform.db import Database
from app.platform.storage.repository import stored_bytes
from app.runs.dispatch.limits import DispatchLimits
from app.runs.records import NewRun, RunRecord
from app.runs.repository import find_run
from tests.factories import a_budget
from tests.integration.run_queue import Queue

SIZE = 2

Change = Callable[[Database, KeyRecord], Awaitable[object]]


async def stored(
    queue: Queue, new: NewRun, *, size: int = SIZE, max_stored: int | None = None
) -> RunRecord | None:
    async with queue.database.write() as tx:
        return await queue.queue.insert_unlimited(tx, new, size=size, max_stored=max_stored)


async def is_stored(database: Database, run: RunKey) -> bool:
    async with database.read() as reader:
        return await find_run(reader, run) is not None


async def test_a_run_is_stored_as_by_the_checks_one_by_one(database: Database, key: KeyRecord) -> None:
    queue = Queue(database, DispatchLimits(100, per_account=10))
    expected = await queue.post(key, "one", at_once=True)

    record = await stored(queue, queue.new(key, "two", starts_at_once=True))

    assert record is not None
    assert (record.status, record.process_id) == ("running", queue.process_id)
    at = record.created_at
    assert record.started_at == at
    assert replace(expected, key=record.key, created_at=at, started_at=at) == record


async def test_a_run_that_has_to_wait_is_queued(database: Database, key: KeyRecord) -> None:
    queue = Queue(database, DispatchLimits(1000, per_account=1))
    await queue.post(key, "first", at_once=True)

    record = await stored(queue, queue.new(key, "second", starts_at_once=True))

    assert record is not None
    assert (record.status, record.queued_position) == ("queued", 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda database, key: Accounts(database).revoke_key(key.id),
        lambda database, key: Accounts(database).change_account(key.account_id, suspended=True),
        lambda database, key: CreditLedger(database).change_mode(key.account_id, "prepaid"),
        lambda database, key: Budgets(database).set_budget(key.account_id, a_budget(credits=10**9)),
        lambda database, key: Budgets(database).set_budget(
            key.account_id, a_budget(scope="tag", match="team=a", mode="soft", tokens=10**9)
        ),
    ],
    ids=["revoked", "suspended", "prepaid", "budget", "soft budget of a tag"],
)
async def test_what_needs_another_check_is_not_stored(
    database: Database, key: KeyRecord, change: Change
) -> None:
    queue = Queue(database)
    await change(database, key)

    new = queue.new(key, "one")

    assert await stored(queue, new) is None
    assert not await is_stored(database, new.key)


async def test_a_key_that_has_expired_starts_nothing(database: Database, key: KeyRecord) -> None:
    queue = Queue(database)
    async with database.write() as tx:
        statement = text("UPDATE api_keys SET expires_at = now() - interval '1 s' WHERE id = :id")
        await tx.execute(statement, {"id": key.id})

    assert await stored(queue, queue.new(key, "one")) is None


async def test_a_run_needs_room_for_its_request(database: Database, key: KeyRecord) -> None:
    queue = Queue(database)
    await queue.post(key, "one")
    async with database.read() as reader:
        used = await stored_bytes(reader, key.account_id)

    assert await stored(queue, queue.new(key, "two"), max_stored=used + SIZE - 1) is None
    assert await stored(queue, queue.new(key, "two"), max_stored=used + SIZE) is not None


async def test_an_id_is_stored_once(database: Database, key: KeyRecord) -> None:
    queue = Queue(database)

    records = await asyncio.gather(*(stored(queue, queue.new(key, "same")) for _ in range(4)))

    assert len([each for each in records if each is not None]) == 1


async def test_a_full_queue_takes_no_run(database: Database, key: KeyRecord) -> None:
    queue = Queue(database, DispatchLimits(1, per_account=1))
    for name in ("running", "waiting", "waiting too"):
        await stored(queue, queue.new(key, name, starts_at_once=name == "running"))

    assert await queue.held() == {"waiting": "limit"}


async def test_a_run_waits_for_a_revocation_and_is_not_stored(database: Database, key: KeyRecord) -> None:
    """The revocation has looked for the runs of the key before this one would exist."""
    queue, run = Queue(database), RunKey(key.account_id, RunId("late"))
    async with database.transaction() as tx:
        await lock_key(tx, key.id)
        await revoke(tx, key.id)
        late = asyncio.create_task(stored(queue, queue.new(key, run.run_id)))
        await until_waiting(database, late)
        assert not late.done()

    assert await late is None
    assert not await is_stored(database, run)


async def until_waiting(database: Database, statement: "asyncio.Task[RunRecord | None]") -> None:
    """Until it waits for a lock of another transaction, or does not."""
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    while not statement.done():
        async with database.read() as reader:
            if (await reader.execute(waiting)).scalar_one():
                return
