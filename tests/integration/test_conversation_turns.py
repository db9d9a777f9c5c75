"""Which callers and runs get a turn of a conversation."""

import asyncio

import pytest

from app.auth.records import KeyRecord
from app.ids import RunId, RunKey
from app.platform.clock.clock import host_time
from app.platform.db import Database
from app.platform.storage.records import Retention
from app.requests.messages import Message
from app.requests.principal import Principal, ScopeMissing
from app.requests.run_request import GraphRunRequest, OnConflict
from app.runs.conversations.service import ConversationBusy, ConversationNotFound
from tests.factories import an_account
from tests.integration.conversations import KEY, a_turn, conversations_over, end_run
from tests.integration.run_process import GRAPH
from tests.integration.statements import execute, rows


def writer(key: KeyRecord) -> Principal:
    """A caller who may start runs and read none."""
    return Principal(key.account_id, key.id, frozenset({"runs:write"}))


async def turn(database: Database, caller: Principal, on_conflict: OnConflict = "enqueue") -> list[RunKey]:
    """Take a turn; returns the runs to cancel for it."""
    request = GraphRunRequest.of(
        graph_id=GRAPH,
        messages=[Message.of(role="user", content="go")],
        state_key=KEY,
        on_conflict=on_conflict,
    )
    async with database.transaction() as tx:
        taken = await conversations_over(database).take_turn(tx, caller, KEY, request=request)
    return list(taken.to_cancel)


async def test_a_key_that_may_not_read_continues_no_conversation_of_another_key(database: Database) -> None:
    key, other = await an_account(database), await an_account(database)
    await a_turn(database, key, "r1")

    assert await turn(database, writer(key)) == []
    with pytest.raises(ScopeMissing):
        await turn(database, writer(other))


async def test_a_busy_conversation_takes_a_turn_unless_it_was_to_be_rejected(database: Database) -> None:
    key = await an_account(database)
    await a_turn(database, key, "r1", ended=False)

    with pytest.raises(ConversationBusy):
        await turn(database, writer(key), "reject")
    assert await turn(database, writer(key), "enqueue") == []
    assert await turn(database, writer(key), "interrupt") == [RunKey(key.account_id, RunId("r1"))]


async def test_a_conversation_with_an_active_run_is_not_deleted(database: Database) -> None:
    key, conversations = await an_account(database), conversations_over(database)
    await a_turn(database, key, "r1", ended=False)

    with pytest.raises(ConversationBusy):
        await conversations.delete(writer(key), KEY)
    await end_run(database, RunKey(key.account_id, RunId("r1")))
    await conversations.delete(writer(key), KEY)
    with pytest.raises(ConversationNotFound):
        await conversations.delete(writer(key), KEY)


async def test_a_deleted_conversation_leaves_nothing_in_its_runs(database: Database) -> None:
    key, conversations = await an_account(database), conversations_over(database)
    for run in ("r1", "r2"):
        await a_turn(database, key, run)

    await conversations.delete(writer(key), KEY)

    kept = await rows(
        database, "SELECT run_id, request, question, contents_deleted_at IS NOT NULL FROM runs ORDER BY 1"
    )
    assert [tuple(row) for row in kept] == [("r1", None, None, True), ("r2", None, None, True)]


async def test_conversations_that_are_not_used_are_deleted_by_two_servers_at_once(database: Database) -> None:
    conversations = conversations_over(database)
    for number in range(7):
        await a_turn(database, await an_account(database, f"account-{number}"), "r1", ended=number > 0)
    longer_than = Retention(transcripts_days=2)
    early = await conversations.delete_unused(longer_than, host_time(), 4)
    # The first has an active run, the last was used since.
    await execute(
        database,
        "UPDATE sessions SET updated_at = now() - interval '3 days'",
        "UPDATE sessions SET updated_at = now() WHERE account_id ="
        " (SELECT id FROM accounts WHERE name = 'account-6')",
    )

    work = [conversations.delete_unused(longer_than, host_time(), 4) for _ in range(2)]
    deleted = sum(await asyncio.gather(*work))
    deleted += await conversations.delete_unused(longer_than, host_time(), 4)

    left = await rows(
        database, "SELECT name FROM sessions JOIN accounts ON accounts.id = account_id ORDER BY name"
    )
    assert (early, deleted) == (0, 5)
    assert [row.name for row in left] == ["account-0", "account-6"]
