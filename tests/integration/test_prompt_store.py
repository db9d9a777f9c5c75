"""The last prompt of a conversation, kept for its next turn."""

from datetime import UTC, datetime

from structlog.testing import capture_logs

from app.conversations.prompt_store import PromptStore
from app.conversations.records import Conversation
from app.conversations.repository import delete_conversation
from app.gateway.prompt_cache.history import PromptHistory
from app.gateway.prompt_cache.prompt import AgentPrompt
from app.ids import AccountId, RunId, RunKey, new_uuid
from app.platform.db import Database
from app.runs.recovery.repository import record_takeovers
from app.runs.repository import find_run
from app.usage.records import TokenUsage
from tests.factories import an_account, an_unused_database
from tests.integration.conversations import a_turn
from tests.integration.run_process import a_run_elsewhere
from tests.integration.statements import execute
from tests.unit.gateway.prompt_cache.prompts import a_prompt


def a_history(turns: int) -> PromptHistory:
    history = PromptHistory()
    usage = TokenUsage(cache_write_5m_tokens=1000 * turns)
    history.add(AgentPrompt("", a_prompt(turns)), usage, {}, at=datetime(2026, 11, 22, tzinfo=UTC))
    return history


RUN = RunKey(AccountId(new_uuid()), RunId("r1"))


async def a_conversation(database: Database) -> Conversation:
    return await a_turn(database, await an_account(database), "r1")


async def test_the_next_run_gets_what_the_last_one_stored(database: Database) -> None:
    conversation, store = await a_conversation(database), PromptStore(database)
    assert await store.load(conversation) is None

    for turns in (1, 2):
        await store.save(conversation, a_history(turns), run=RUN, attempt=0)
        assert await store.load(conversation) == a_history(turns).last


async def test_a_run_without_prompt_keeps_the_last_one(database: Database) -> None:
    conversation, store = await a_conversation(database), PromptStore(database)
    await store.save(conversation, a_history(1), run=RUN, attempt=0)
    await store.save(conversation, PromptHistory(), run=RUN, attempt=0)
    assert await store.load(conversation) == a_history(1).last


async def test_a_run_without_conversation_has_no_prompt_before_it(database: Database) -> None:
    store = PromptStore(database)
    await store.save(None, a_history(1), run=RUN, attempt=0)
    assert await store.load(None) is None


async def test_a_deleted_conversation_and_its_successor_have_none(database: Database) -> None:
    key, store = await an_account(database), PromptStore(database)
    conversation = await a_turn(database, key, "r1")
    await store.save(conversation, a_history(1), run=RUN, attempt=0)
    async with database.transaction() as tx:
        await delete_conversation(tx, conversation)
    # A run of the deleted one ends late.
    await store.save(conversation, a_history(2), run=RUN, attempt=0)
    successor = await a_turn(database, key, "r2")
    await store.save(conversation, a_history(3), run=RUN, attempt=0)

    assert await store.load(conversation) is None
    assert await store.load(successor) is None


async def test_a_prompt_of_another_version_is_none(database: Database) -> None:
    conversation, store = await a_conversation(database), PromptStore(database)
    await store.save(conversation, a_history(1), run=RUN, attempt=0)
    await execute(database, "UPDATE session_prompts SET prompt = '{}'")

    with capture_logs() as logs:
        assert await store.load(conversation) is None
    assert [entry["event"] for entry in logs] == ["prompt_cache.history_unavailable"]


async def test_a_database_that_is_away_explains_nothing_and_fails_nothing(database: Database) -> None:
    conversation = await a_conversation(database)
    store = PromptStore(an_unused_database())

    with capture_logs() as logs:
        assert await store.load(conversation) is None
        await store.save(conversation, a_history(1), run=RUN, attempt=0)
    events = [entry["event"] for entry in logs]
    assert events == ["database.unavailable", *["prompt_cache.history_unavailable"] * 2]


async def test_the_prompt_of_an_attempt_that_was_taken_over_is_not_kept(database: Database) -> None:
    key, store = await an_account(database), PromptStore(database)
    conversation, run = await a_turn(database, key, "r1"), await a_run_elsewhere(database, key)
    async with database.transaction() as tx:
        record = await find_run(tx, run)
        assert record is not None
        await record_takeovers(tx, [record])

    await store.save(conversation, a_history(1), run=run, attempt=0)
    assert await store.load(conversation) is None
    await store.save(conversation, a_history(1), run=run, attempt=1)
    assert await store.load(conversation) is not None
