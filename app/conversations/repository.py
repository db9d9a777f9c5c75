"""SQL for conversations and their transcripts."""

from collections.abc import Collection, Sequence
from typing import Any, cast
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import RowMapping

from app.conversations.records import (
    Conversation,
    NewTurn,
    StoredEntry,
    Transcript,
    TranscriptEntry,
    TranscriptState,
)
from app.conversations.tables import conversation_branches, session_entries, session_prompts, sessions
from app.ids import AccountId, RunId, RunKey
from app.platform.db import Database, Reader, Transaction, page_of
from app.platform.objects.repository import with_objects
from app.platform.pagination import PageRequest
from app.platform.postgres.prepared import Prepared
from app.platform.serialization.stored_json import dump_json

_entries = session_entries.c
_is_prompt_of_session = (session_prompts.c.account_id == sessions.c.account_id) & (
    session_prompts.c.state_key == sessions.c.state_key
)
_BRANCHES = sa.func.greatest(
    sa.select(sa.func.count())
    .select_from(conversation_branches)
    .where(
        conversation_branches.c.account_id == sessions.c.account_id,
        conversation_branches.c.state_key == sessions.c.state_key,
    )
    .scalar_subquery(),
    # Without rows there is one.
    1,
).label("branches")
SIZE = with_objects(_entries.bytes, sa.cast(_entries.project_key, sa.Uuid), _entries.objects)
"""Of a line."""

_BATCH = 1000
_BATCH_BYTES = 2 * 2**20


def taking_turn(*given: sa.FromClause) -> sa.UpdateBase:
    """The statement of `take_turn`; with `given` it takes a turn for each row of that."""
    of_turn = ("account_id", *NewTurn._fields)
    new: dict[str, sa.ColumnElement[Any]] = {"turns": sa.literal(1)}
    new |= {name: sa.cast(sa.bindparam(name), sessions.c[name].type) for name in of_turn}
    new |= {name: sa.func.now() for name in ("created_at", "updated_at")}
    rows = sa.select(*new.values()).select_from(*given)
    insert = postgresql.insert(sessions).from_select(list(new), rows)
    is_undecided = sessions.c.executor == ""
    return insert.on_conflict_do_update(
        index_elements=[sessions.c.account_id, sessions.c.state_key],
        # A transaction that has waited for another one began before that one's.
        set_={
            "turns": sessions.c.turns + 1,
            "updated_at": sa.func.greatest(sessions.c.updated_at, sa.func.now()),
            "archived": False,
            "executor": sa.case((is_undecided, insert.excluded.executor), else_=sessions.c.executor),
            "title": sa.case((is_undecided, insert.excluded.title), else_=sessions.c.title),
        },
    ).returning(sessions)


_TAKE_TURN = taking_turn()


async def take_turn(tx: Transaction, account_id: AccountId, turn: NewTurn) -> Conversation:
    """Add a turn to the conversation, creating it with this title and executor if there is none.

    One that was created without an executor gets both now. Locks its row until the transaction ends, so
    turns are numbered in the order of commits.
    """
    found = await tx.execute(_TAKE_TURN, {"account_id": account_id, **turn._asdict()})
    return _conversation(found.mappings().one())


async def insert_conversation(tx: Transaction, conversation: Conversation) -> Conversation | None:
    """Insert a conversation without runs, which begins now; None if its key is taken."""
    statement = (
        postgresql.insert(sessions)
        .values(
            account_id=conversation.account_id,
            state_key=conversation.state_key,
            session_id=conversation.session_id,
            title=conversation.title,
            executor=conversation.executor,
            turns=conversation.turns,
            forked_from=conversation.forked_from,
            forked_at=conversation.forked_at,
            managed=conversation.managed,
            opening=conversation.opening,
            created_at=sa.func.now(),
            updated_at=sa.func.now(),
        )
        .on_conflict_do_nothing()
        .returning(sessions)
    )
    row = (await tx.execute(statement)).mappings().one_or_none()
    return None if row is None else _conversation(row)


async def update_conversation(tx: Transaction, conversation: Conversation, **columns: Any) -> None:
    is_one = _is(conversation.account_id, conversation.state_key)
    await tx.execute(sa.update(sessions).where(is_one).values(columns))


async def replace_title(
    tx: Transaction, account_id: AccountId, state_key: str, *, old: str, new: str
) -> None:
    """Replace the title of a conversation if it still is the old one."""
    is_untouched = _is(account_id, state_key) & (sessions.c.title == old)
    await tx.execute(sa.update(sessions).where(is_untouched).values(title=new))


async def find_conversation(reader: Reader, account_id: AccountId, state_key: str) -> Conversation | None:
    found = await reader.execute(sa.select(sessions, _BRANCHES).where(_is(account_id, state_key)))
    row = found.mappings().one_or_none()
    return None if row is None else _conversation(row)


async def sessions_of(reader: Reader, keys: Collection[tuple[AccountId, str]]) -> set[UUID]:
    key = sa.tuple_(sessions.c.account_id, sessions.c.state_key)
    return set((await reader.execute(sa.select(sessions.c.session_id).where(key.in_(keys)))).scalars())


async def lock_conversation(tx: Transaction, account_id: AccountId, state_key: str) -> Conversation | None:
    """The conversation, locked so that it gets no turn before the transaction ends."""
    statement = sa.select(sessions).where(_is(account_id, state_key)).with_for_update()
    row = (await tx.execute(statement)).mappings().one_or_none()
    return None if row is None else _conversation(row)


async def newest_conversations(
    reader: Reader,
    account_id: AccountId,
    page: PageRequest,
    *having: sa.ColumnElement[bool],
    computed: Sequence[sa.ColumnElement[Any]] = (),
) -> list[Conversation]:
    """A page of an account's conversations (of those with these conditions), most recently used first.

    `computed`: further fields of the records.
    """
    columns = sa.select(sessions, _BRANCHES, *computed)
    of_account = columns.where(sessions.c.account_id == account_id, *having)
    statement = page_of(of_account, page, at=sessions.c.updated_at, id_=sessions.c.state_key)
    return [_conversation(row) for row in (await reader.execute(statement)).mappings()]


async def conversations_where(
    reader: Reader, *having: sa.ColumnElement[bool], order: Sequence[sa.ColumnElement[Any]], limit: int
) -> list[Conversation]:
    """The first conversations with these conditions, in this order."""
    statement = sa.select(sessions, _BRANCHES).where(*having).order_by(*order).limit(limit)
    return [_conversation(row) for row in (await reader.execute(statement)).mappings()]


async def delete_conversation(tx: Transaction, conversation: Conversation) -> None:
    """Delete a conversation and its transcripts; a trigger deletes those of its other branches."""
    await tx.execute(sa.delete(sessions).where(_is(conversation.account_id, conversation.state_key)))
    await delete_entries(tx, conversation.transcript)


async def last_prompt(reader: Reader, conversation: Conversation) -> dict[str, Any] | None:
    return next((row["prompt"] for row in await _LAST_PROMPT.fetch(reader, _session(conversation))), None)


async def set_last_prompt(
    tx: Transaction, conversation: Conversation, prompt: dict[str, Any], *, run: RunKey, attempt: int
) -> None:
    """Replace the last prompt, unless the conversation was deleted or the attempt was taken over."""
    values = {"run_id": run.run_id, "attempt": attempt, "prompt": dump_json(prompt)}
    await _SET_LAST_PROMPT.fetch(tx, _session(conversation) | values)


async def transcript_state(reader: Reader, transcript: Transcript) -> TranscriptState:
    statement = sa.select(
        sa.func.count(),
        sa.func.coalesce(sa.func.sum(_entries.bytes), 0),
        sa.func.coalesce(sa.func.max(_entries.position), 0),
    ).where(in_transcript(transcript))
    return TranscriptState(*map(int, (await reader.execute(statement)).one()))


async def page_of_entries(
    reader: Reader, transcript: Transcript, *, after: int, limit: int, max_bytes: int
) -> list[StoredEntry]:
    """The lines after a position, in order: up to about `max_bytes`, at least one."""
    values = {**transcript._asdict(), "after": after, "limit": limit, "max_bytes": max_bytes}
    return [
        StoredEntry(
            row["position"],
            TranscriptEntry(_line(row["entry"]), row["run_id"], objects=row["objects"] or ()),
            row["bytes"],
            is_last=row["is_last"],
        )
        for row in await _PAGE.fetch(reader, values)
    ]


def _line(stored: Any) -> dict[str, Any]:
    """A line; a damaged one is like one of an unknown kind, which readers skip."""
    return stored if isinstance(stored, dict) else {}


async def load_entries(database: Database, transcript: Transcript) -> list[StoredEntry]:
    """All lines; a long transcript in batches, so that other tasks run in between."""
    limits = {"limit": _BATCH, "max_bytes": _BATCH_BYTES}
    async with database.read() as reader:
        entries = await page_of_entries(reader, transcript, after=0, **limits)
    if not entries or entries[-1].is_last:
        return entries
    async with database.snapshot() as reader:
        entries = await page_of_entries(reader, transcript, after=0, **limits)
        # Nothing is left if the conversation was deleted meanwhile.
        while entries and not entries[-1].is_last:
            entries += await page_of_entries(reader, transcript, after=entries[-1].position, **limits)
    return entries


async def entries_of_run(
    reader: Reader, transcript: Transcript, run_id: RunId | None
) -> list[TranscriptEntry]:
    """The lines of one run, or those of none, in order."""
    statement = sa.select(_entries.entry).where(in_transcript(transcript), _entries.run_id == run_id)
    lines = (await reader.execute(statement.order_by(_entries.position))).scalars()
    return [TranscriptEntry(_line(line), run_id) for line in lines]


async def first_positions(reader: Reader, transcript: Transcript) -> dict[str, int]:
    first = sa.func.min(_entries.position).label("first")
    statement = (
        sa.select(_entries.run_id, first)
        .where(in_transcript(transcript), _entries.run_id.is_not(None))
        .group_by(_entries.run_id)
        .order_by(first)
    )
    return {row.run_id: row.first for row in await reader.execute(statement)}


async def run_at(reader: Reader, transcript: Transcript, position: int) -> str | None:
    """The run that wrote the line at a position."""
    statement = sa.select(_entries.run_id).where(in_transcript(transcript), _entries.position == position)
    run_id: str | None = (await reader.execute(statement)).scalar_one_or_none()
    return run_id


async def transcript_bytes(reader: Reader, transcript: Transcript) -> int:
    """The size of a transcript, without its subagents'."""
    return int((await reader.execute(sa.select(bytes_in(*transcript)))).scalar_one())


def bytes_in(project_key: Any, session_id: Any, subpath: Any = "") -> sa.ScalarSelect[int]:
    """The same as an expression, whose parameters may be columns."""
    of_transcript = in_transcript(Transcript(project_key, session_id, subpath))
    return sa.select(sa.func.coalesce(sa.func.sum(SIZE), 0)).where(of_transcript).scalar_subquery()


async def delete_entries(tx: Transaction, transcript: Transcript) -> None:
    """Delete a session's transcript together with its subagents'."""
    await tx.execute(
        sa.delete(session_entries).where(
            _entries.project_key == transcript.project_key, _entries.session_id == transcript.session_id
        )
    )


_IS_CURRENT = sa.text(
    "NOT EXISTS (SELECT FROM run_takeovers AS lost WHERE lost.account_id = :account_id"
    " AND lost.run_id = :run_id AND lost.attempt >= :attempt)"
)


def _is(account_id: AccountId, state_key: str) -> Any:
    return (sessions.c.account_id == account_id) & (sessions.c.state_key == state_key)


def _session(conversation: Conversation) -> dict[str, Any]:
    """Not one that was created with the same key after this one was deleted."""
    names = ("account_id", "state_key", "session_id")
    return {name: getattr(conversation, name) for name in names}


_IS_SESSION = sa.and_(
    *(sessions.c[name] == sa.bindparam(name) for name in ("account_id", "state_key", "session_id"))
)
_LAST_PROMPT = Prepared(
    sa.select(session_prompts.c.prompt).join(sessions, _is_prompt_of_session).where(_IS_SESSION)
)


def _setting_last_prompt() -> sa.Executable:
    prompt = sa.cast(sa.cast(sa.bindparam("prompt"), sa.Text), session_prompts.c.prompt.type)
    stored = sa.select(sessions.c.account_id, sessions.c.state_key, prompt).where(_IS_SESSION, _IS_CURRENT)
    key = ["account_id", "state_key"]
    insert = postgresql.insert(session_prompts).from_select([*key, "prompt"], stored)
    return insert.on_conflict_do_update(index_elements=key, set_={"prompt": insert.excluded.prompt})


_SET_LAST_PROMPT = Prepared(_setting_last_prompt())


def in_transcript(transcript: Transcript) -> sa.ColumnElement[bool]:
    return (
        (_entries.project_key == transcript.project_key)
        & (_entries.session_id == transcript.session_id)
        & (_entries.subpath == transcript.subpath)
    )


def _conversation(row: RowMapping) -> Conversation:
    columns: dict[str, Any] = dict(row)
    return Conversation(**columns)


def _page() -> sa.Executable:
    before = sa.func.sum(SIZE).over(order_by=_entries.position) - SIZE
    next_ = sa.func.lead(_entries.position).over(order_by=_entries.position)
    transcript: Any = Transcript(*(cast("Any", sa.bindparam(name)) for name in Transcript._fields))
    sized = (
        sa.select(
            *(_entries.position, _entries.entry, _entries.objects, _entries.run_id, _entries.bytes),
            before.label("before"),
            next_.is_(None).label("is_last"),
        )
        .where(in_transcript(transcript), _entries.position > sa.bindparam("after"))
        .order_by(_entries.position)
        .limit(sa.bindparam("limit", type_=sa.Integer))
        .subquery()
    )
    is_within = sized.c.before < sa.bindparam("max_bytes", type_=sa.BigInteger)
    return sa.select(sized).where(is_within).order_by(sized.c.position)


_PAGE = Prepared(_page())
