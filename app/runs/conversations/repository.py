"""SQL for the runs of a conversation as its turns; the messages are in app/conversations."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import sqlalchemy as sa

from app.conversations.branching.records import BranchRun, PassedOn
from app.conversations.records import Conversation
from app.conversations.repository import newest_conversations
from app.conversations.tables import conversation_branches, sessions
from app.ids import AccountId, RunId, RunKey
from app.platform.db import Reader, Transaction, json_text
from app.platform.objects.documents import StoredDocument
from app.platform.objects.repository import with_objects
from app.platform.pagination import PageRequest
from app.platform.postgres.labels import labels_match
from app.platform.postgres.statements import is_one_of
from app.platform.storage.records import Retention
from app.platform.storage.repository import overdue
from app.requests.principal import Principal
from app.runs.conversations.records import ConversationFilter, StoredQuestion, TurnRecord
from app.runs.feedback.repository import feedback_of
from app.runs.records import UNFINISHED, RunRecord, StoredEvents
from app.runs.repository import RUN_COLUMNS, run_of
from app.runs.tables import run_events, runs

_ANY_LANGUAGE: Final[sa.ColumnElement[Any]] = sa.literal_column("'simple'::regconfig")
"""How PostgreSQL finds words in texts: in no language, because each conversation has its own."""
_SEARCHED_CHARS: Final = 65_536
"""Of an answer."""


async def turns_of(reader: Reader, conversation: Conversation) -> list[TurnRecord]:
    statement = sa.select(*_COLUMNS).where(*_of(conversation)).order_by(runs.c.turn)
    return [_record(row) for row in await reader.execute(statement)]


async def lock_unused(
    tx: Transaction, by_default: Retention, *, until: datetime, most: int
) -> list[tuple[AccountId, str]]:
    """Lock some without a turn for too long; skips active ones, and those another server locked."""
    active = sa.select(runs.c.run_id).where(
        runs.c.account_id == sessions.c.account_id,
        runs.c.state_key == sessions.c.state_key,
        runs.c.status.in_(UNFINISHED),
    )
    key, since = (sessions.c.account_id, sessions.c.state_key), [sessions.c.updated_at]
    unused = sa.select(*key).where(~active.exists()).with_for_update(skip_locked=True)
    statement = overdue(
        *(unused, key[0], "transcripts_days"), since=since, until=until, by_default=by_default, most=most
    )
    return [(AccountId(row.account_id), row.state_key) for row in await tx.execute(statement)]


async def runs_on_branches(reader: Reader, conversation: Conversation) -> list[BranchRun]:
    statement = sa.select(*_BRANCH_COLUMNS).where(*_of(conversation)).order_by(runs.c.turn)
    return [_branch_run(row) for row in await reader.execute(statement)]


async def find_branch_runs(
    reader: Reader, account_id: AccountId, run_ids: Collection[str]
) -> list[BranchRun]:
    """The account's runs with these ids, of whatever conversation."""
    statement = sa.select(*_BRANCH_COLUMNS).where(
        runs.c.account_id == account_id, is_one_of(runs.c.run_id, run_ids)
    )
    return [_branch_run(row) for row in await reader.execute(statement)]


async def newest_run_of(
    reader: Reader, account_id: AccountId, state_key: str, *, run_id: str | None = None
) -> RunRecord | None:
    """The newest run of a conversation, or the one with this id."""
    of_key = (sessions.c.account_id == runs.c.account_id) & (sessions.c.state_key == runs.c.state_key)
    of_conversation = _is_of_conversation(sessions.c.session_id, sessions.c.created_at)
    statement = (
        sa.select(*RUN_COLUMNS)
        .select_from(runs.outerjoin(sessions, of_key))
        .where(runs.c.account_id == account_id, runs.c.state_key == state_key)
        # The turns of a deleted conversation with the same key are counted from the first, too.
        .order_by(sa.func.coalesce(of_conversation, sa.false()).desc(), runs.c.turn.desc())
        .limit(1)
    )
    if run_id is not None:
        statement = statement.where(runs.c.run_id == run_id)
    row = (await reader.execute(statement)).one_or_none()
    return None if row is None else run_of(row)


async def follows_success(reader: Reader, conversation: Conversation) -> bool:
    """Whether the last run before this turn on its branch has succeeded; False without one."""
    statement = (
        sa.select(_HAS_SUCCEEDED)
        .where(
            runs.c.account_id == conversation.account_id,
            runs.c.state_key == conversation.state_key,
            runs.c.session_id == conversation.session_id,
            runs.c.turn < conversation.turns,
        )
        .order_by(runs.c.turn.desc())
        .limit(1)
    )
    return bool((await reader.execute(statement)).scalar_one_or_none())


async def questions_of(
    reader: Reader, account_id: AccountId, run_ids: Collection[str], *, max_bytes: int
) -> list[StoredQuestion]:
    """What is stored of the requests of these ended runs, in the order of their turns.

    The requests of the last ones, up to so many bytes together.
    """
    size = with_objects(runs.c.bytes, runs.c.account_id, runs.c.objects)
    later = sa.func.sum(size).over(order_by=runs.c.turn.desc())
    sized = (
        sa.select(runs.c.run_id, runs.c.turn, runs.c.question, runs.c.objects, later.label("later"))
        .where(runs.c.account_id == account_id, is_one_of(runs.c.run_id, run_ids))
        .subquery()
    )
    fits = sized.c.later <= max_bytes
    stored = sa.select(sa.cast(runs.c.request, sa.Text)).where(
        runs.c.account_id == account_id, runs.c.run_id == sized.c.run_id
    )
    statement = sa.select(
        sized.c.run_id,
        sized.c.question,
        sa.case((fits, stored.scalar_subquery())).label("text"),
        sized.c.objects,
        fits.label("fits"),
    ).order_by(sized.c.turn)
    return [_question(account_id, **row._asdict()) for row in await reader.execute(statement)]


def _question(
    account_id: AccountId, *, text: str | None, objects: list[str] | None, **columns: Any
) -> StoredQuestion:
    request = None if text is None else StoredDocument(account_id, text, frozenset(objects or ()))
    return StoredQuestion(request=request, **columns)


async def store_passed_on(
    tx: Transaction, run: RunKey, passed_on: Sequence[PassedOn], *, attempt: int
) -> None:
    """Store with which messages that of a run begins, unless the run is at another attempt."""
    statement = sa.update(runs).where(
        runs.c.account_id == run.account_id, runs.c.run_id == run.run_id, runs.c.attempt == attempt
    )
    stored = [{"runId": each.run_id, "parts": each.parts} for each in passed_on]
    await tx.execute(statement.values(passed_on=stored))


def is_visible_to(caller: Principal) -> Iterator[sa.ColumnElement[bool]]:
    """Conditions on the conversations of the caller's account: the same as those for reading one of them."""
    if caller.end_user is None:
        return
    of_account = sa.select(runs.c.state_key).where(runs.c.account_id == caller.account_id)
    others = of_account.where(
        runs.c.state_key == sessions.c.state_key, runs.c.end_user.is_distinct_from(caller.end_user)
    )
    yield sessions.c.forked_from.is_(None)
    yield json_text(sessions.c.opening, "apiKeyId").is_(None)
    yield sessions.c.state_key.in_(of_account.where(runs.c.end_user == caller.end_user))
    yield ~others.exists()


async def newest_chats(
    reader: Reader, caller: Principal, graph_id: str, page: PageRequest
) -> list[Conversation]:
    """A page of the conversations with runs of this graph, most recently used first."""
    has_run = sa.exists().where(IS_OF_SESSION, runs.c.graph_id == graph_id)
    return await newest_conversations(reader, caller.account_id, page, has_run, *is_visible_to(caller))


async def chosen_conversations(
    reader: Reader, caller: Principal, page: PageRequest, chosen: ConversationFilter
) -> list[Conversation]:
    """A page of the conversations that are chosen, whatever their words, most recently used first."""
    conditions = [*is_visible_to(caller)]
    if chosen.used_from is not None:
        conditions.append(sessions.c.updated_at >= chosen.used_from)
    if chosen.used_to is not None:
        conditions.append(sessions.c.updated_at < chosen.used_to)
    if chosen.pinned is not None:
        conditions.append(sessions.c.pinned if chosen.pinned else ~sessions.c.pinned)
    if chosen.archived is not None:
        conditions.append(sessions.c.archived if chosen.archived else ~sessions.c.archived)
    if has_labels := labels_match(runs.c, chosen.labels):
        conditions.append(sa.exists().where(IS_OF_SESSION, *has_labels))
    return await newest_conversations(reader, caller.account_id, page, *conditions)


async def has_words(reader: Reader, words: str) -> bool:
    """Whether there is anything to search for: punctuation is not."""
    return bool((await reader.execute(sa.select(sa.func.numnode(_query(words))))).scalar_one())


async def conversations_with(
    reader: Reader, examined: Sequence[Conversation], words: str, page: PageRequest
) -> list[Conversation]:
    """A page of those of an account's conversations that have these words, most recently used first."""
    answer = sa.func.left(json_text(runs.c.final, "content"), _SEARCHED_CHARS)
    is_hit = sa.or_(_contains(runs.c.question, words), _contains(answer, words))
    hits = sa.select(runs.c.run_id).where(IS_OF_SESSION, is_hit).correlate(sessions)
    return await newest_conversations(
        *(reader, examined[0].account_id, page),
        is_one_of(sessions.c.state_key, [each.state_key for each in examined]),
        sa.or_(_contains(sessions.c.title, words), hits.exists()),
        computed=[hits.order_by(runs.c.turn.desc()).limit(1).scalar_subquery().label("found_in_run")],
    )


async def find_turns(reader: Reader, account_id: AccountId, run_ids: Collection[str]) -> list[TurnRecord]:
    statement = sa.select(*_COLUMNS).where(runs.c.account_id == account_id, is_one_of(runs.c.run_id, run_ids))
    return [_record(row) for row in await reader.execute(statement)]


async def stored_additions(
    reader: Reader,
    account_id: AccountId,
    run_ids: Collection[str],
    *,
    calls: Collection[str],
    messages: Collection[str],
) -> list[StoredEvents]:
    """The stored results of these tool calls of finished runs, and the citations of these messages."""
    data = run_events.c.data
    is_result = sa.and_(
        json_text(data, "type") == "tool_call_result", is_one_of(json_text(data, "toolCallId"), calls)
    )
    is_citation = sa.and_(
        json_text(data, "type") == "citation", is_one_of(json_text(data, "messageId"), messages)
    )
    statement = (
        sa.select(run_events.c.position, run_events.c.last_position, data)
        .where(
            run_events.c.account_id == account_id,
            is_one_of(run_events.c.run_id, run_ids),
            sa.or_(is_result, is_citation),
        )
        .order_by(run_events.c.position)
    )
    found = await reader.execute(statement)
    return [StoredEvents(row.position, row.last_position, row.data) for row in found]


_HAS_SUCCEEDED = runs.c.status == "succeeded"

_BRANCH_COLUMNS = (
    runs.c.run_id,
    runs.c.session_id,
    runs.c.message_id,
    runs.c.passed_on,
    _HAS_SUCCEEDED.label("has_succeeded"),
)

_COLUMNS = (
    runs.c.account_id,
    runs.c.run_id,
    runs.c.graph_id,
    runs.c.state_key,
    runs.c.turn,
    runs.c.created_at,
    runs.c.question,
    runs.c.message_id,
    runs.c.feedback,
    sa.cast(json_text(runs.c.final, "ok"), sa.Boolean).label("ok"),
    json_text(runs.c.final, "error").label("error"),
    json_text(runs.c.final, "finishReason").label("finish_reason"),
)


def _of(conversation: Conversation) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        runs.c.account_id == conversation.account_id,
        runs.c.state_key == conversation.state_key,
        _is_of_conversation(sa.literal(conversation.session_id), sa.literal(conversation.created_at)),
    )


def _is_of_conversation(
    session_id: sa.ColumnElement[UUID], created_at: sa.ColumnElement[datetime]
) -> sa.ColumnElement[bool]:
    """Whether a run with a conversation's state key is on this branch of it or on another one.

    The other runs with the key belong to a deleted conversation. Only those from before there were branches
    are told apart by their time: two transactions, or two clocks, may disagree on that.
    """
    of_key = (conversation_branches.c.account_id == runs.c.account_id) & (
        conversation_branches.c.state_key == runs.c.state_key
    )
    branches = sa.select(conversation_branches.c.session_id).where(of_key).correlate(runs)
    return sa.or_(
        runs.c.session_id == session_id,
        runs.c.session_id.in_(branches),
        sa.and_(runs.c.session_id.is_(None), runs.c.created_at >= created_at),
    )


IS_OF_SESSION = sa.and_(
    runs.c.account_id == sessions.c.account_id,
    runs.c.state_key == sessions.c.state_key,
    _is_of_conversation(sessions.c.session_id, sessions.c.created_at),
)
"""Whether a run is one of a conversation's, on whichever branch."""


def _query(words: str) -> sa.ColumnElement[Any]:
    return sa.func.websearch_to_tsquery(_ANY_LANGUAGE, words)


def _contains(searched: sa.ColumnElement[str], words: str) -> sa.ColumnElement[bool]:
    found: sa.ColumnElement[bool] = sa.func.to_tsvector(_ANY_LANGUAGE, searched).bool_op("@@")(_query(words))
    return found


def _branch_run(row: Any) -> BranchRun:
    columns = row._asdict()
    passed_on = [PassedOn(each["runId"], each["parts"]) for each in columns.pop("passed_on") or ()]
    return BranchRun(**columns, passed_on=passed_on)


def _record(row: Any) -> TurnRecord:
    columns = row._asdict()
    key = RunKey(AccountId(columns.pop("account_id")), RunId(columns.pop("run_id")))
    return TurnRecord(
        **{
            **columns,
            "key": key,
            "question": columns["question"] or "",
            "feedback": feedback_of(columns["feedback"]),
        }
    )
