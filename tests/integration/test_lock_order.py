"""Transactions that lock the same rows do so in one order: PostgreSQL never has to end one of them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from sqlalchemy import func, insert, text

from app.auth.accounts import Accounts
from app.auth.device_logins.repository import insert_login
from app.auth.device_logins.tables import device_logins
from app.auth.records import KeyRecord
from app.auth.repository import lock_account, lock_key
from app.billing.budgets.records import Amount
from app.billing.budgets.service import Budgets
from app.billing.credit.ledger import CreditLedger
from app.billing.prices.price_list import PriceList
from app.billing.prices.quote import BilledUsage
from app.billing.pseudonyms.service import forget
from app.billing.receipts.open_messages.records import OpenMessage
from app.billing.receipts.open_messages.repository import lock_open_messages, write_open_messages
from app.billing.receipts.records import NewReceipt
from app.billing.receipts.repository import insert_receipts
from app.ids import RunId, RunKey, new_uuid
from app.platform.audit.records import SERVER
from app.platform.db import Database, DatabaseUnavailable, Transaction
from app.platform.objects.repository import announce, take_released
from app.runs.deletion.repository import delete_contents, lock_ended_run
from app.runs.readers.repository import forget_readers, record_left, record_readers
from app.runs.readers.service import RunReaders
from app.workspaces.service import Workspaces
from tests.factories import a_budget, a_fact, a_wait, reached_by
from tests.integration.conversations import KEY, a_turn, conversations_over, end_run
from tests.integration.run_service import OpenCore
from tests.integration.statements import execute, scalar
from tests.integration.test_kept_files import a_kept_turn, left, opened
from tests.patience import PATIENCE_S
from tests.scripted import WriteMessage

Work: TypeAlias = Callable[[], Coroutine[Any, Any, object]]


async def until_waiting(database: Database, tasks: "list[asyncio.Task[object]]") -> None:
    """Wait until each of these that is not done waits for a lock."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            waiting = await scalar(database, "SELECT count(*) FROM pg_locks WHERE NOT granted")
            if waiting >= sum(not task.done() for task in tasks):
                return
            await asyncio.sleep(0.01)


async def released_together(database: Database, locked: str, *works: Work) -> None:
    """Let all of these wait for what a statement locks, as far as they do; all have to succeed."""
    tasks = list[asyncio.Task[object]]()
    async with database.transaction() as tx:
        await tx.execute(text(locked))
        for work in works:
            tasks.append(asyncio.create_task(work()))
            await until_waiting(database, tasks)
    await asyncio.gather(*tasks)


def within(database: Database, change: Callable[[Transaction], Awaitable[object]]) -> Work:
    async def work() -> None:
        async with database.transaction() as tx:
            await change(tx)

    return work


def receipts_of(key: KeyRecord, *messages: str) -> list[NewReceipt]:
    facts = [a_fact(key, message) for message in messages]
    charges = [PriceList().charge(BilledUsage.of(fact), at=fact.at) for fact in facts]
    return [NewReceipt.of(fact, charge, "final") for fact, charge in zip(facts, charges, strict=True)]


async def test_a_message_that_is_recovered_while_its_process_delivers_it(
    database: Database, key: KeyRecord
) -> None:
    fact = a_fact(key)
    async with database.write() as tx:
        await write_open_messages(tx, [OpenMessage(fact, is_complete=True)])

    async with database.transaction() as tx:
        await lock_open_messages(tx, [fact.key])
        delivery = asyncio.create_task(
            within(database, lambda tx: insert_receipts(tx, receipts_of(key, "msg_1")))()
        )
        await until_waiting(database, [delivery])
        await insert_receipts(tx, receipts_of(key, "msg_1"))
    await delivery

    assert await scalar(database, "SELECT count(*) FROM charge_receipts") == 1


@pytest.mark.parametrize("is_delivered", [True, False])
async def test_messages_are_closed_in_the_order_in_which_they_are_written(
    database: Database, key: KeyRecord, *, is_delivered: bool
) -> None:
    first, second = (OpenMessage(a_fact(key, message), is_complete=True) for message in ("msg_1", "msg_2"))
    for message in (second, first):
        async with database.write() as tx:
            await write_open_messages(tx, [message])

    async def close(tx: Transaction) -> None:
        if is_delivered:
            await insert_receipts(tx, receipts_of(key, "msg_1", "msg_2"))
        else:
            await write_open_messages(tx, [], removed=[second.fact.key, first.fact.key])

    async with database.transaction() as tx:
        await write_open_messages(tx, [first])
        closing = asyncio.create_task(within(database, close)())
        await until_waiting(database, [closing])
        await write_open_messages(tx, [second])
    await closing

    assert await scalar(database, "SELECT count(*) FROM open_messages") == 0


async def a_run_with_files(
    database: Database, key: KeyRecord, run_id: str, directory: Path, **files: str
) -> RunKey:
    run = await a_kept_turn(database, key, run_id)
    await left(database, run, await opened(database, run, directory), **files)
    return run


async def delete_run(tx: Transaction, run: RunKey) -> None:
    assert await lock_ended_run(tx, run)
    await delete_contents(tx, [run])


async def test_a_run_is_deleted_while_its_files_expire(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    run = await a_run_with_files(database, key, "r1", tmp_path / "1", a="1")
    await execute(database, "UPDATE workspaces SET expires_at = now()")

    await released_together(
        database,
        "SELECT FROM workspace_files FOR UPDATE",
        within(database, lambda tx: delete_run(tx, run)),
        Workspaces(database, []).delete_expired_files,
    )

    assert await scalar(database, "SELECT count(*) FROM file_contents") == 0


async def test_a_run_is_deleted_with_its_conversation_and_alone(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    run = await a_run_with_files(database, key, "r1", tmp_path / "1", a="1")
    conversations = conversations_over(database)

    await released_together(
        database,
        "SELECT FROM runs FOR UPDATE",
        within(database, lambda tx: delete_run(tx, run)),
        within(database, lambda tx: conversations.erase(tx, key.account_id, KEY)),
    )

    assert await scalar(database, "SELECT count(*) FROM file_contents") == 0
    assert await scalar(database, "SELECT count(*) FROM sessions") == 0


async def test_runs_that_share_files_are_deleted_in_different_orders(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    """As the retention of runs in one process, and the deletion of a conversation in another."""
    names = ("r1", "r2", "r3", "r4")
    for place, run_id in enumerate(names):
        await a_run_with_files(database, key, run_id, tmp_path / run_id, shared=str(place % 2))
    runs = [RunKey(key.account_id, RunId(run_id)) for run_id in names]

    await released_together(
        database,
        "SELECT FROM file_contents ORDER BY sha256 LIMIT 1 FOR UPDATE",
        within(database, lambda tx: delete_contents(tx, [runs[0], runs[1]])),
        within(database, lambda tx: delete_contents(tx, [runs[3], runs[2]])),
    )

    assert await scalar(database, "SELECT count(*) FROM workspace_files") == 0


@pytest.mark.parametrize("are_forgotten", [True, False])
async def test_readers_leave_in_the_order_in_which_they_are_recorded(
    database: Database, key: KeyRecord, *, are_forgotten: bool
) -> None:
    runs, process_id = [RunKey(key.account_id, RunId(run_id)) for run_id in ("r1", "r2")], new_uuid()
    for run in runs:
        await a_turn(database, key, run.run_id, ended=False)

    async def leave(tx: Transaction) -> None:
        if are_forgotten:
            await forget_readers(tx, runs[::-1])
        else:
            await record_left(tx, process_id, runs[::-1])

    async with database.write() as tx:
        await record_readers(tx, process_id, runs[::-1])
    async with database.transaction() as tx:
        await record_readers(tx, process_id, runs[:1])
        leaving = asyncio.create_task(within(database, leave)())
        await until_waiting(database, [leaving])
        await record_readers(tx, process_id, runs[1:])
    await leaving

    left = 0 if are_forgotten else 2
    assert await scalar(database, "SELECT count(*) FROM run_readers WHERE seen_at = 'epoch'") == left


async def test_two_processes_forget_the_readers_of_a_run_that_has_ended(
    database: Database, key: KeyRecord
) -> None:
    """In one of them another run is read, which has ended in the other's view."""
    ended, read = [RunKey(key.account_id, RunId(run_id)) for run_id in ("r1", "r2")]
    for run in (ended, read):
        await a_turn(database, key, run.run_id, ended=False)
    async with database.write() as tx:
        await record_readers(tx, new_uuid(), [ended])
    await end_run(database, ended)
    readers = RunReaders(
        database, process_id=new_uuid(), executed=lambda: [ended], cancel=never_cancelled, grace_s=PATIENCE_S
    )

    async with readers.reading(read, stops_unread=True):
        await released_together(
            database,
            "SELECT FROM run_readers WHERE run_id = 'r1' FOR UPDATE",
            within(database, lambda tx: forget_readers(tx, [ended, read])),
            readers.check,
        )

    assert await scalar(database, "SELECT count(*) FROM run_readers WHERE run_id = 'r1'") == 0


async def never_cancelled(_run: RunKey) -> None:
    raise AssertionError


async def test_two_keys_rotate_each_other(database: Database, key: KeyRecord) -> None:
    accounts = Accounts(database)
    other, _ = await accounts.create_key(key.account, key.scopes)

    def rotate(old: KeyRecord, caller: KeyRecord) -> Work:
        new = partial(accounts.replace_key, caller=caller.principal, by=SERVER)
        return within(database, lambda tx: new(tx, old.id, timedelta(1)))

    await released_together(
        database, "SELECT FROM api_keys FOR SHARE", rotate(other, key), rotate(key, other)
    )

    assert await scalar(database, "SELECT count(*) FROM api_keys") == 4


async def test_a_receipt_does_not_wait_for_the_change_of_its_key_and_account(
    database: Database, key: KeyRecord
) -> None:
    async with database.transaction() as tx:
        await lock_key(tx, key.id)
        await lock_account(tx, key.account_id)
        async with asyncio.timeout(PATIENCE_S), database.write() as other:
            await insert_receipts(other, receipts_of(key, "msg_1"))

    assert await scalar(database, "SELECT count(*) FROM charge_receipts") == 1


async def test_a_budget_is_replaced_while_it_refuses_a_call(database: Database, key: KeyRecord) -> None:
    run = RunKey(key.account_id, RunId("r1"))
    await a_turn(database, key, run.run_id)
    await execute(database, """UPDATE runs SET tags = '{"a": "1", "b": "1"}'""")
    budgets, budget = Budgets(database), a_budget(scope="tag", window="total", credits=1, mode="hard")
    await budgets.set_budget(key.account_id, budget)
    # The first to be deleted is the last to be refused.
    for value in ("b=1", "a=1"):
        await execute(
            database,
            "INSERT INTO budget_spending SELECT account_id, id, :value, 'epoch', 0, 0 FROM budgets",
            value=value,
        )

    await released_together(
        database,
        "SELECT FROM budget_spending WHERE value = 'a=1' FOR UPDATE",
        lambda: CreditLedger(database).report_refusal(run, Amount(2, 0)),
        lambda: budgets.set_budget(key.account_id, replace(budget, credits=2)),
    )

    assert await scalar(database, "SELECT credits FROM budgets") == 2


async def test_an_end_user_is_forgotten_while_its_first_message_is_charged(
    database: Database, key: KeyRecord
) -> None:
    charged = replace(receipts_of(key, "msg_1")[0], end_user="ann")
    await execute(
        database, "INSERT INTO credit_accounts (account_id) VALUES (:account)", account=key.account_id
    )

    await released_together(
        database,
        "SELECT FROM credit_accounts FOR UPDATE",
        within(database, lambda tx: insert_receipts(tx, [charged])),
        within(database, lambda tx: forget(tx, key.account_id, "ann")),
    )

    assert await scalar(database, "SELECT count(*) FROM end_user_salts") == 1


async def test_several_rows_are_changed_in_the_order_of_their_keys(database: Database) -> None:
    """Whatever the order in which they were inserted."""
    for device in (b"2", b"1"):
        values = {"device_hash": device, "user_code": device.hex(), "refresh_seed": b"", "client": "c"}
        async with database.write() as tx:
            await tx.execute(insert(device_logins).values(expires_at=func.now(), **values))
    locked = "SELECT FROM device_logins WHERE device_hash = :device FOR UPDATE"

    async with database.transaction() as tx:
        await tx.execute(text(locked), {"device": b"1"})
        change = partial(insert_login, lifetime=timedelta(1), client="c", refresh_seed=b"")
        changing = asyncio.create_task(within(database, partial(change, device_hash=b"3", user_code="3"))())
        await until_waiting(database, [changing])
        await tx.execute(text(locked), {"device": b"2"})
    await changing

    assert await scalar(database, "SELECT user_code FROM device_logins") == "3"


async def test_runs_and_conversations_let_go_of_the_same_contents(database: Database, key: KeyRecord) -> None:
    contents = ("1" * 64, "2" * 64)
    for run_id, sha256 in zip(("r1", "r2", "r3", "r4"), (*contents, *contents[::-1]), strict=True):
        await a_turn(database, key, run_id)
        await execute(
            database, "UPDATE runs SET objects = ARRAY[:sha256] WHERE run_id = :id", sha256=sha256, id=run_id
        )
    async with database.write() as tx:
        await announce(tx, key.account_id, dict.fromkeys(contents, 1), keep=timedelta(0))
    await execute(database, "UPDATE stored_objects SET check_at = NULL")
    runs = [RunKey(key.account_id, RunId(run_id)) for run_id in ("r1", "r2", "r3", "r4")]

    async def delete(tx: Transaction, first: RunKey, then: RunKey) -> None:
        await delete_run(tx, first)
        await tx.execute(text("SELECT pg_advisory_xact_lock_shared(1)"))
        await delete_run(tx, then)

    await released_together(
        database,
        "SELECT pg_advisory_xact_lock(1)",
        within(database, partial(delete, first=runs[0], then=runs[1])),
        within(database, partial(delete, first=runs[2], then=runs[3])),
    )
    async with database.write() as tx:
        await take_released(tx, most=9)

    assert await scalar(database, "SELECT count(*) FROM stored_objects WHERE check_at IS NOT NULL") == 2
    assert await scalar(database, "SELECT count(*) FROM released_objects") == 0


async def test_a_run_whose_end_is_undone_by_a_deadlock_ends_nevertheless(
    database: Database, open_core: OpenCore
) -> None:
    """The other transaction locks in the wrong order, and lets the database choose the end of the run."""
    wait = a_wait()
    async with open_core(lambda _: [wait, WriteMessage("Once.")]) as core:
        run = (await core.start()).key
        await reached_by(wait)
        with suppress(DatabaseUnavailable):
            async with database.transaction() as tx:
                await tx.execute(text("SET LOCAL deadlock_timeout = '10s'"))
                await tx.execute(text("SELECT lock_dispatch(:account_id)"), run._asdict())
                wait.until.set()
                ending = asyncio.create_task(core.service.wait(run))
                await until_waiting(database, [ending])
                await tx.execute(text("UPDATE runs SET question = question"))
        final = await ending

    assert (final.ok, final.content) == (True, "Once.")
    assert await scalar(database, "SELECT status FROM runs") == "succeeded"
