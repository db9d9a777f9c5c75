"""The answers of a chat's message, which may be many, are found in few queries."""

from itertools import islice
from typing import Any

import pytest
from sqlalchemy import event, text

from app.platform.db import Database
from app.runs.chats import Chat, answer_ids, latest_answer
from tests.factories import an_account
from tests.integration.run_process import GRAPH

CHAT = Chat(GRAPH, "chat-1")
_INSERT = text(
    """
    INSERT INTO runs (account_id, run_id, api_key_id, graph_id, model, status, request_hash, created_at)
    VALUES (:account, :run, :key, 'claude_agents:assistant', 'm', 'succeeded', '', now())
    """
)


@pytest.mark.parametrize(("answered", "queries"), [(0, 1), (15, 1), (16, 2), (48, 3), (240, 5)])
async def test_the_next_answer_follows_the_last_one(database: Database, answered: int, queries: int) -> None:
    key, counted = await an_account(database), []
    *ids, following = islice(answer_ids(key.account_id, CHAT, "u1"), answered + 1)
    async with database.transaction() as tx:
        for run_id in ids:
            await tx.execute(_INSERT, {"account": key.account_id, "run": run_id, "key": key.id})

    def count(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        counted.append(statement)

    event.listen(database._engine.sync_engine, "before_cursor_execute", count)
    found = await latest_answer(database, key.account_id, CHAT, message_id="u1")

    assert found == (ids[-1] if ids else None, following)
    assert len(counted) == queries
