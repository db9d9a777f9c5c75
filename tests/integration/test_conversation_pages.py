"""A conversation is read page by page, and the pages together are the whole."""

from typing import Any

import pytest

from app.auth.records import KeyRecord
from app.conversations.history import PAGE_BYTES
from app.conversations.records import TranscriptEntry
from app.conversations.transcript_store import TranscriptStore
from app.http.api.conversations.schemas import ConversationDetailResponse
from app.platform.db import Database
from app.requests.messages import Message
from app.requests.principal import Principal
from app.requests.run_request import GraphRunRequest
from app.runs.conversations.service import ConversationFull
from tests.factories import an_account
from tests.integration.conversations import KEY, a_turn, conversations_over


def lines_of(run_id: str, *, answer: str = "done") -> list[TranscriptEntry]:
    """A question, a tool call, its result and an answer."""
    call: dict[str, Any] = {"type": "tool_use", "id": f"call-{run_id}", "name": "clock", "input": {}}
    result = {"type": "tool_result", "tool_use_id": f"call-{run_id}", "is_error": True}
    lines = [
        {"type": "user", "message": {"content": f"question of {run_id}"}},
        {"type": "assistant", "message": {"id": f"{run_id}-1", "content": [call]}},
        {"type": "user", "message": {"content": [result]}},
        {
            "type": "assistant",
            "message": {"id": f"{run_id}-2", "content": [{"type": "text", "text": answer}]},
        },
    ]
    return [TranscriptEntry({**line, "uuid": f"{run_id}-{n}"}, run_id) for n, line in enumerate(lines)]


async def pages(database: Database, key: KeyRecord, *, limit: int) -> list[list[dict[str, Any]]]:
    found: list[list[dict[str, Any]]] = []
    cursor = None
    while True:
        page = await conversations_over(database).get_page(key.account_id, KEY, limit=limit, cursor=cursor)
        shown = ConversationDetailResponse.of_page(page, None).model_dump(
            mode="json", by_alias=True, exclude_unset=True
        )
        found.append(shown["messages"])
        cursor = shown["nextCursor"]
        if cursor is None:
            return found


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 7])
async def test_pages_of_any_size_add_up_to_the_conversation(database: Database, limit: int) -> None:
    key, store = await an_account(database), TranscriptStore(database)
    for run_id in ("r1", "never-began", "r2", "r3"):
        conversation = await a_turn(database, key, run_id)
        if run_id != "never-began":
            await store.add(conversation.transcript, lines_of(run_id))
    await a_turn(database, key, "waits", ended=False)

    (whole,) = await pages(database, key, limit=1000)
    parts = await pages(database, key, limit=limit)

    assert [message for part in parts for message in part] == whole
    kinds = ["user_message", "tool_call", "assistant_message", "result"]
    never = ["user_message", "result"]
    assert [message["type"] for message in whole] == [*kinds, *never, *kinds, *kinds, *never]
    assert [message["isError"] for message in whole if message["type"] == "tool_call"] == [True] * 3
    assert [message["finishReason"] for message in whole if message["type"] == "result"][-2:] == [
        "stop",
        None,
    ]
    assert len(parts) >= 12 / limit


async def test_a_page_exceeds_its_size_limit_by_one_line_at_most(database: Database) -> None:
    key, store = await an_account(database), TranscriptStore(database)
    conversation = await a_turn(database, key, "r1")
    for number in range(6):
        await store.add(conversation.transcript, lines_of(f"r1-{number}", answer="x" * (PAGE_BYTES // 2)))

    sizes = [sum(len(str(message)) for message in page) for page in await pages(database, key, limit=1000)]

    assert len(sizes) == 3
    assert max(sizes) < PAGE_BYTES * 1.5


async def test_a_full_conversation_accepts_no_further_turn(database: Database, key: KeyRecord) -> None:
    conversation = await a_turn(database, key, "r1")
    await TranscriptStore(database).add(conversation.transcript, lines_of("r1", answer="x" * 2000))
    full, roomy = conversations_over(database, 2000), conversations_over(database, 10_000)
    request = GraphRunRequest.of(
        graph_id="claude_agents:assistant", messages=[Message.of(role="user", content="more")]
    )

    caller = Principal(key.account_id, key.id, frozenset(key.scopes))

    async with database.transaction() as tx:
        await roomy.take_turn(tx, caller, KEY, request=request)
        with pytest.raises(ConversationFull):
            await full.take_turn(tx, caller, KEY, request=request)


@pytest.mark.parametrize("limit", [1, 2, 10])
async def test_a_run_is_listed_before_its_question_is_stored(database: Database, limit: int) -> None:
    key, store = await an_account(database), TranscriptStore(database)
    conversation = await a_turn(database, key, "r1")
    await store.add(conversation.transcript, lines_of("r1"))
    conversation = await a_turn(database, key, "r2", ended=False)
    noted = {"type": "queue-operation", "operation": "enqueue", "uuid": "r2-q"}
    await store.add(conversation.transcript, [TranscriptEntry(noted, "r2")])

    shown = [message for page in await pages(database, key, limit=limit) for message in page]

    questions = [message["content"] for message in shown if message["type"] == "user_message"]
    assert questions == ["question of r1", "question of r2"]
    results = [message["runId"] for message in shown if message["type"] == "result"]
    assert results == ["r1", "r2"]
