"""Which callers and runs get a turn of a conversation."""

import pytest

from app.auth.records import KeyRecord
from app.ids import RunId, RunKey
from app.platform.db import Database
from app.requests.messages import Message
from app.requests.principal import Principal, ScopeMissing
from app.requests.runs import GraphRunRequest, OnConflict
from app.runs.conversations.service import ConversationBusy, ConversationNotFound
from tests.factories import an_account
from tests.integration.conversations import KEY, a_turn, conversations_over, end_run
from tests.integration.run_process import GRAPH


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
