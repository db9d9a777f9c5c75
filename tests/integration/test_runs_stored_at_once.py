"""Runs that one statement accepts: it stores no run that the checks one by one would refuse."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.auth.accounts import Accounts
from app.auth.records import KeyRecord
from app.auth.repository import lock_key, revoke
from app.billing.budgets.repository import lock_credit, store_budget
from app.billing.budgets.service import Budgets
from app.billing.credit.ledger import CreditLedger
from app.billing.credit.records import GrantTerms
from app.conversations.records import TranscriptEntry, TranscriptState, TurnBeginning
from app.conversations.transcript_store import TranscriptStore
from app.ids import RunId, RunKey
from app.platform.db import Database, NothingStored
from app.platform.storage.repository import stored_bytes
from app.runs.dispatch.insertion.records import AtOnce, StoredAtOnce
from app.runs.dispatch.limits import DispatchLimits
from app.runs.records import NewRun, RunRecord
from app.runs.repository import find_run
from tests.factories import a_budget, a_new_turn, not_none
from tests.integration.run_queue import Queue
from tests.integration.statements import execute
from tests.patience import PATIENCE_S

SIZE = 2

Change = Callable[[Database, KeyRecord], Awaitable[object]]


async def accepted(queue: Queue, new: NewRun, **given: Any) -> StoredAtOnce | None:
    """What the statement stores; None: nothing."""
    all_given = {"size": SIZE, "max_stored": None, "credits": 1, "at": datetime.now(UTC), **given}
    try:
        async with queue.database.write() as tx:
            return await queue.queue.insert_at_once(tx, new, AtOnce(**all_given))
    except NothingStored:
        return None


async def stored(queue: Queue, new: NewRun, **given: Any) -> RunRecord | None:
    found = await accepted(queue, new, **given)
    return None if found is None else found.record


def of_chat(**fields: Any) -> dict[str, Any]:
    """What a run of a conversation is given."""
    return {"turn": a_new_turn("chat", **fields), "max_transcript": 1000}


async def turns_of(queue: Queue) -> list[int]:
    """How many turns conversations have."""
    return [row.turns for row in await queue.rows("SELECT turns FROM sessions")]


async def is_stored(database: Database, run: RunKey) -> bool:
    async with database.read() as reader:
        return await find_run(reader, run) is not None


async def test_a_run_is_stored_as_by_the_checks_one_by_one(database: Database, key: KeyRecord) -> None:
    queue = Queue(database, DispatchLimits(100, per_account=10))
    expected = await queue.post(key, "one", at_once=True)

    record = not_none(await stored(queue, queue.new(key, "two", starts_at_once=True)))

    assert (record.status, record.process_id) == ("running", queue.process_id)
    at = record.created_at
    assert record.started_at == at
    assert replace(expected, key=record.key, created_at=at, started_at=at) == record


async def test_a_run_that_has_to_wait_is_queued(database: Database, key: KeyRecord) -> None:
    queue = Queue(database, DispatchLimits(1000, per_account=1))
    await queue.post(key, "first", at_once=True)

    record = not_none(await stored(queue, queue.new(key, "second", starts_at_once=True)))

    assert (record.status, record.queued_position) == ("queued", 1)


async def prepaid(database: Database, key: KeyRecord, credits_: int, **terms: Any) -> CreditLedger:
    """The ledger, in which the account has so many credits."""
    ledger = CreditLedger(database)
    await ledger.change_mode(key.account_id, "prepaid")
    if credits_:
        await ledger.grant(key.account_id, credits_, **terms)
    return ledger


@pytest.mark.parametrize(
    "change",
    [
        lambda database, key: Accounts(database).revoke_key(key.id),
        lambda database, key: Accounts(database).change_account(key.account_id, suspended=True),
        lambda database, key: prepaid(database, key, 0),
        lambda database, key: Budgets(database).set_budget(key.account_id, a_budget(credits=10**9)),
        lambda database, key: Budgets(database).set_budget(
            key.account_id, a_budget(scope="tag", match="team=a", mode="soft", tokens=10**9)
        ),
    ],
    ids=["revoked", "suspended", "no credit", "budget", "soft budget of a tag"],
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
    await execute(
        database, "UPDATE api_keys SET expires_at = now() - interval '1 s' WHERE id = :id", id=key.id
    )

    assert await stored(queue, queue.new(key, "one")) is None


async def test_a_run_needs_room_for_its_request(database: Database, key: KeyRecord) -> None:
    queue = Queue(database)
    await queue.post(key, "one")
    async with database.write() as tx:
        used = await stored_bytes(tx, key.account_id)

    assert await stored(queue, queue.new(key, "two"), max_stored=used + SIZE - 1) is None
    assert await stored(queue, queue.new(key, "two"), max_stored=used + SIZE) is not None


async def test_many_changes_of_what_is_stored_are_summed_once(database: Database, key: KeyRecord) -> None:
    queue, sums = Queue(database), "SELECT sum(bytes)::int AS bytes, count(*) AS changes FROM storage_changes"
    await queue.post(key, "one")
    change = "INSERT INTO storage_changes (owner, bytes) SELECT :owner, 1 FROM generate_series(1, 500)"
    await execute(database, change, owner=str(key.account_id))
    (before,) = await queue.rows(sums)
    enough = before.bytes + SIZE

    some = await asyncio.gather(*(stored(queue, queue.new(key, run), max_stored=enough) for run in "234"))

    (after,) = await queue.rows(sums)
    assert any(some)
    assert after.bytes == before.bytes + SIZE * sum(each is not None for each in some)
    assert after.changes < 10
    assert await stored(queue, queue.new(key, "five"), max_stored=enough) is None


async def test_an_id_is_stored_once(database: Database, key: KeyRecord) -> None:
    queue = Queue(database)

    records = await asyncio.gather(*(stored(queue, queue.new(key, "same")) for _ in range(4)))

    assert len([each for each in records if each is not None]) == 1


async def _stored_after_checks(queue: Queue, new: NewRun) -> RunRecord | None:
    async with queue.database.transaction() as tx:
        return await queue.queue.insert(tx, new)


@pytest.mark.parametrize("store", [stored, _stored_after_checks])
async def test_a_taken_id_is_found_while_its_run_is_changed(
    database: Database, key: KeyRecord, store: Callable[[Queue, NewRun], Awaitable[RunRecord | None]]
) -> None:
    """What ends a run has its row, and then waits for what an insert has locked: a deadlock."""
    queue = Queue(database)
    await queue.post(key, "same")
    async with database.transaction() as tx:
        await tx.execute(text("UPDATE runs SET priority = 1"))

        assert await asyncio.wait_for(store(queue, queue.new(key, "same")), PATIENCE_S) is None


async def test_a_full_queue_takes_no_run(database: Database, key: KeyRecord) -> None:
    queue = Queue(database, DispatchLimits(1, per_account=1))
    for name in ("running", "waiting", "waiting too"):
        await stored(queue, queue.new(key, name, starts_at_once=name == "running"))

    assert await queue.held() == {"waiting": "limit"}


async def test_a_turn_is_taken_as_by_the_checks_one_by_one(database: Database, key: KeyRecord) -> None:
    queue = Queue(database, DispatchLimits(100))
    first = await accepted(queue, queue.new(key, "one", starts_at_once=True), **of_chat(title="First"))
    second = await accepted(queue, queue.new(key, "two"), **of_chat(title="Second"))
    third = await queue.post(key, "three", chat="chat")

    assert first is not None
    assert second is not None
    assert second.conversation is not None
    assert (second.conversation.turns, second.conversation.title) == (2, "First")
    assert [each.record.turn for each in (first, second)] == [1, 2]
    assert third.turn == 3
    assert {each.record.session_id for each in (first, second)} == {third.session_id}
    assert await queue.held() == {"two": "turn", "three": "turn"}


@pytest.mark.parametrize(
    ("run_id", "given"),
    [
        ("one", {}),
        ("two", {"turn": a_new_turn("chat", executor="messages")}),
        ("two", {"max_transcript": 0}),
        ("two", {"size": 10**9, "max_stored": 10**6}),
    ],
    ids=["the id is taken", "another executor", "the conversation is full", "the quota is used up"],
)
async def test_a_run_that_is_not_stored_takes_no_turn(
    database: Database, key: KeyRecord, run_id: str, given: Mapping[str, Any]
) -> None:
    queue = Queue(database, DispatchLimits(100))
    await accepted(queue, queue.new(key, "one"), **of_chat())

    assert await accepted(queue, queue.new(key, run_id), **{**of_chat(), **given}) is None

    assert await turns_of(queue) == [1]


async def test_a_turn_that_starts_at_once_knows_what_it_begins_with(
    database: Database, key: KeyRecord
) -> None:
    queue, store = Queue(database, DispatchLimits(100)), TranscriptStore(database)
    first = await accepted(queue, queue.new(key, "one", starts_at_once=True), **of_chat())
    waiting = await accepted(queue, queue.new(key, "two", starts_at_once=True), **of_chat())
    assert first is not None
    assert first.conversation is not None
    assert first.beginning == TurnBeginning(follows_success=False, transcript=TranscriptState())
    assert waiting is not None
    assert waiting.beginning is None

    line = TranscriptEntry({"type": "user", "uuid": "u1", "text": "go"}, "one", 0)
    state = await store.add(first.conversation.transcript, [line])
    ended = """UPDATE runs SET status = 'succeeded', meters = '{"sdk": 1}', held_for = NULL"""
    await execute(database, ended)
    third = not_none(await accepted(queue, queue.new(key, "three", starts_at_once=True), **of_chat()))

    assert third.beginning == TurnBeginning(follows_success=True, transcript=state)
    assert state.lines == 1


async def test_turns_that_are_taken_at_the_same_time_are_numbered_in_their_order(
    database: Database, key: KeyRecord
) -> None:
    queue = Queue(database, DispatchLimits(100))

    found = await asyncio.gather(*(stored(queue, queue.new(key, f"{n}"), **of_chat()) for n in range(8)))

    assert {each.turn for each in found if each is not None} == set(range(1, 9))
    assert await turns_of(queue) == [8]


async def test_credit_is_reserved_until_none_is_left(database: Database, key: KeyRecord) -> None:
    """A reservation may exceed what is left: then no other run gets any."""
    queue, ledger = Queue(database, DispatchLimits(100)), await prepaid(database, key, 100)

    found = await asyncio.gather(
        *(accepted(queue, queue.new(key, f"{n}"), credits=60, **of_chat()) for n in range(6))
    )

    assert [each.reserved for each in found if each is not None] == [60, 60]
    assert (await ledger.balance(key.account_id)).reserved == 120
    runs, (conversation,) = (
        await queue.rows("SELECT run_id FROM runs"),
        await queue.rows("SELECT turns FROM sessions"),
    )
    assert (len(runs), conversation.turns) == (2, 2)


async def test_nothing_is_reserved_without_a_limit(database: Database, key: KeyRecord) -> None:
    queue = Queue(database)
    found = not_none(await accepted(queue, queue.new(key, "one"), credits=60))

    assert found.reserved is None
    assert (await CreditLedger(database).balance(key.account_id)).reserved == 0


async def test_credit_that_has_expired_starts_no_run(database: Database, key: KeyRecord) -> None:
    queue, soon = Queue(database), datetime.now(UTC) + timedelta(hours=1)
    await prepaid(database, key, 100, terms=GrantTerms(soon))

    assert await stored(queue, queue.new(key, "late"), at=soon) is None
    assert await stored(queue, queue.new(key, "early"), at=soon - timedelta(seconds=1)) is not None


async def test_a_run_waits_for_credit_that_another_one_reserves(database: Database, key: KeyRecord) -> None:
    queue, ledger = Queue(database), await prepaid(database, key, 1)
    async with database.transaction() as tx:
        await ledger.reserve(tx, RunKey(key.account_id, RunId("other")), 1)
        late = asyncio.create_task(stored(queue, queue.new(key, "late"), **of_chat()))
        await until_waiting(database, late)
        assert not late.done()

    assert await late is None
    assert await turns_of(queue) == []


async def test_a_budget_that_is_set_meanwhile_is_not_missed(database: Database, key: KeyRecord) -> None:
    queue = Queue(database)
    await prepaid(database, key, 100)
    async with database.transaction() as tx:
        await lock_credit(tx, key.account_id)
        late = asyncio.create_task(stored(queue, queue.new(key, "late")))
        await until_waiting(database, late)
        await store_budget(tx, key.account_id, a_budget(credits=1), datetime.now(UTC))

    assert await late is None
    assert not await is_stored(database, RunKey(key.account_id, RunId("late")))


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
