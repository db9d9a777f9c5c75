"""SQL for the runs of a conversation as its turns; the messages are in app/conversations."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Boolean, ColumnElement, cast, exists, select

from app.conversations.branching.records import BranchRun
from app.conversations.records import Conversation
from app.conversations.repository import newest_conversations
from app.conversations.tables import sessions
from app.db import Reader, json_text
from app.ids import AccountId, RunId, RunKey
from app.pagination import PageRequest
from app.postgres.statements import is_one_of
from app.runs.conversations.records import TurnRecord
from app.runs.records import StoredEvents
from app.runs.tables import run_events, runs


async def turns_of(reader: Reader, conversation: Conversation) -> list[TurnRecord]:
    """Every run of a conversation, oldest first."""
    statement = select(*_COLUMNS).where(*_of(conversation)).order_by(runs.c.turn)
    return [_record(row) for row in await reader.execute(statement)]


async def runs_on_branches(reader: Reader, conversation: Conversation) -> list[BranchRun]:
    """Every run of a conversation with its branch, oldest first."""
    statement = select(*_BRANCH_COLUMNS).where(*_of(conversation)).order_by(runs.c.turn)
    return [BranchRun(**row._asdict()) for row in await reader.execute(statement)]


async def find_branch_runs(
    reader: Reader, account_id: AccountId, run_ids: Collection[str]
) -> list[BranchRun]:
    """The account's runs with these ids, of whatever conversation."""
    statement = select(*_BRANCH_COLUMNS).where(
        runs.c.account_id == account_id, is_one_of(runs.c.run_id, run_ids)
    )
    return [BranchRun(**row._asdict()) for row in await reader.execute(statement)]


async def newest_chats(
    reader: Reader, account_id: AccountId, graph_id: str, page: PageRequest
) -> list[Conversation]:
    """A page of the conversations with runs of this graph, most recently used first."""
    has_run = exists().where(
        runs.c.account_id == sessions.c.account_id,
        runs.c.state_key == sessions.c.state_key,
        runs.c.created_at >= sessions.c.created_at,
        runs.c.graph_id == graph_id,
    )
    return await newest_conversations(reader, account_id, page, has_run)


async def find_turns(reader: Reader, account_id: AccountId, run_ids: Collection[str]) -> list[TurnRecord]:
    """The account's runs with these ids."""
    statement = select(*_COLUMNS).where(runs.c.account_id == account_id, is_one_of(runs.c.run_id, run_ids))
    return [_record(row) for row in await reader.execute(statement)]


async def stored_results(
    reader: Reader, account_id: AccountId, run_ids: Collection[str], *, calls: Collection[str]
) -> list[StoredEvents]:
    """The stored results of these tool calls of finished runs."""
    statement = select(run_events.c.position, run_events.c.last_position, run_events.c.data).where(
        run_events.c.account_id == account_id,
        is_one_of(run_events.c.run_id, run_ids),
        json_text(run_events.c.data, "type") == "tool_call_result",
        is_one_of(json_text(run_events.c.data, "toolCallId"), calls),
    )
    found = await reader.execute(statement)
    return [StoredEvents(row.position, row.last_position, row.data) for row in found]


_BRANCH_COLUMNS = (runs.c.run_id, runs.c.session_id, runs.c.message_id)

_COLUMNS = (
    runs.c.account_id,
    runs.c.run_id,
    runs.c.graph_id,
    runs.c.state_key,
    runs.c.turn,
    runs.c.created_at,
    runs.c.question,
    runs.c.message_id,
    cast(json_text(runs.c.final, "ok"), Boolean).label("ok"),
    json_text(runs.c.final, "error").label("error"),
    json_text(runs.c.final, "finishReason").label("finish_reason"),
)


def _of(conversation: Conversation) -> tuple[ColumnElement[bool], ...]:
    return (
        runs.c.account_id == conversation.account_id,
        runs.c.state_key == conversation.state_key,
        # Earlier runs belong to a deleted conversation with the same key.
        runs.c.created_at >= conversation.created_at,
    )


def _record(row: Any) -> TurnRecord:
    columns = row._asdict()
    key = RunKey(AccountId(columns.pop("account_id")), RunId(columns.pop("run_id")))
    return TurnRecord(**{**columns, "key": key, "question": columns["question"] or ""})
