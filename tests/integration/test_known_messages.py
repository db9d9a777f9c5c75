"""Which of the messages that a chat posts are known, and which have an answer that the chat does not show."""

from app.conversations.branching.placement import KnownMessages
from app.conversations.records import TranscriptEntry
from app.conversations.sdk_store import PostgresSessionStore
from app.ids import RunId
from app.platform.db import Database
from app.runs.conversations.known_messages import known_messages
from tests.factories import an_account
from tests.integration.conversations import a_turn
from tests.integration.statements import execute


async def test_a_message_without_its_answer_is_unshown_once_the_model_has_answered_it(
    database: Database,
) -> None:
    key = await an_account(database)
    conversation = await a_turn(database, key, "r1")
    posted, runs = ["r1/user", "new"], {"r1/user": RunId("r1")}

    async def known(first_unanswered: int = 0) -> KnownMessages:
        async with database.snapshot() as reader:
            return await known_messages(reader, conversation, posted, first_unanswered=first_unanswered)

    async def say(model: str) -> None:
        line = {"type": "assistant", "message": {"model": model, "content": [{"type": "text", "text": "hi"}]}}
        await PostgresSessionStore(database).add(conversation.transcript, [TranscriptEntry(line, "r1")])

    async def set_status(status: str) -> None:
        await execute(database, "UPDATE runs SET status = :status", status=status)

    await set_status("running")
    await say("claude-sonnet-5-5")
    active = await known()
    await set_status("failed")
    await execute(database, "DELETE FROM session_entries")
    await say("<synthetic>")
    failed = await known()
    await say("claude-sonnet-5-5")

    assert active == failed == KnownMessages(runs)
    assert await known() == KnownMessages(runs, frozenset({"r1/user"}))
    assert await known(first_unanswered=1) == KnownMessages(runs)
