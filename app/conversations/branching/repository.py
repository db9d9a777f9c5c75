"""SQL for the branches of conversations."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Text,
    func,
    insert,
    literal,
    null,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import postgresql

from app.conversations.branching.records import Branch
from app.conversations.records import Conversation, Transcript, TranscriptEntry
from app.conversations.tables import conversation_branches, session_entries, sessions
from app.db import Reader, Transaction
from app.ids import RunId
from app.postgres.statements import is_one_of

_branches = conversation_branches.c
_entries = session_entries.c


async def branches_of(reader: Reader, conversation: Conversation) -> list[Branch]:
    """The branches of a conversation, oldest first."""
    statement = (
        select(_branches.session_id, _branches.is_forked, _branches.forked_from_run, _branches.created_at)
        .where(
            _branches.account_id == conversation.account_id,
            _branches.state_key == conversation.state_key,
        )
        .order_by(_branches.is_forked, _branches.created_at)
    )
    found = [Branch(**row._asdict()) for row in await reader.execute(statement)]
    return found or [Branch.only_one(conversation)]


async def insert_branches(tx: Transaction, conversation: Conversation, branches: Sequence[Branch]) -> None:
    """Insert those of these branches that are not stored."""
    rows = [
        {
            "account_id": conversation.account_id,
            "state_key": conversation.state_key,
            "session_id": branch.session_id,
            "is_forked": branch.is_forked,
            "forked_from_run": branch.forked_from_run,
            "created_at": branch.created_at,
        }
        for branch in branches
    ]
    await tx.execute(postgresql.insert(conversation_branches).values(rows).on_conflict_do_nothing())


async def set_current_branch(tx: Transaction, conversation: Conversation, session_id: UUID) -> None:
    """Continue the conversation on this branch."""
    is_conversation = (sessions.c.account_id == conversation.account_id) & (
        sessions.c.state_key == conversation.state_key
    )
    await tx.execute(update(sessions).where(is_conversation).values(session_id=session_id))


async def bytes_up_to(reader: Reader, transcript: Transcript, runs: Sequence[RunId]) -> int:
    """The size of a transcript up to the last line of these runs."""
    statement = select(func.coalesce(func.sum(_entries.bytes), 0)).where(_up_to(transcript, runs))
    return int((await reader.execute(statement)).scalar_one())


async def copy_transcript(
    tx: Transaction, transcript: Transcript, runs: Sequence[RunId], *, to: UUID
) -> None:
    """Copy a transcript up to the last line of these runs. The lines keep their ids and runs."""
    copied = (
        select(
            _entries.project_key,
            literal(str(to), Text),
            _entries.subpath,
            _entries.entry_uuid,
            _entries.run_id,
            # Copies are not fenced: no attempt writes them.
            null(),
            _entries.entry,
        )
        .where(_up_to(transcript, runs))
        .order_by(_entries.position)
    )
    columns = ["project_key", "session_id", "subpath", "entry_uuid", "run_id", "attempt", "entry"]
    await tx.execute(insert(session_entries).from_select(columns, copied))


def _up_to(transcript: Transcript, runs: Sequence[RunId]) -> ColumnElement[bool]:
    of_transcript = (
        (_entries.project_key == transcript.project_key)
        & (_entries.session_id == transcript.session_id)
        & (_entries.subpath == transcript.subpath)
    )
    last = select(func.max(_entries.position)).where(of_transcript, is_one_of(_entries.run_id, runs))
    return of_transcript & (_entries.position <= last.scalar_subquery())


async def entries_of_runs(
    reader: Reader, project_key: str, runs: Mapping[RunId, UUID]
) -> list[TranscriptEntry]:
    """The lines of these runs, in order, each from the transcript of its branch."""
    place = tuple_(_entries.session_id, _entries.run_id)
    statement = (
        select(_entries.entry, _entries.run_id)
        .where(
            _entries.project_key == project_key,
            _entries.subpath == "",
            place.in_([(str(session_id), run_id) for run_id, session_id in runs.items()]),
        )
        .order_by(_entries.position)
    )
    rows = await reader.execute(statement)
    return [TranscriptEntry(row.entry, row.run_id) for row in rows if isinstance(row.entry, dict)]
