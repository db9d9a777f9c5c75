"""SQL for the branches of conversations."""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.conversations.branching.records import Branch
from app.conversations.records import Conversation, Transcript
from app.conversations.repository import SIZE, in_transcript
from app.conversations.tables import conversation_branches, session_entries
from app.ids import RunId
from app.platform.db import UNREADABLE, Reader, Transaction, json_text
from app.platform.postgres.statements import is_one_of

_branches = conversation_branches.c
_entries = session_entries.c


async def branches_of(reader: Reader, conversation: Conversation) -> list[Branch]:
    statement = (
        sa.select(_branches.session_id, _branches.is_forked, _branches.forked_from_run, _branches.created_at)
        .where(
            _branches.account_id == conversation.account_id,
            _branches.state_key == conversation.state_key,
        )
        .order_by(_branches.is_forked, _branches.created_at)
    )
    found = [Branch(**row._asdict()) for row in await reader.execute(statement)]
    return found or [Branch.only_one(conversation)]


async def insert_branch(
    tx: Transaction, conversation: Conversation, first: Branch, session_id: UUID, *, after: RunId | None
) -> None:
    """Insert a branch that begins after this run, and the conversation's first one unless it is stored."""
    common = {"account_id": conversation.account_id, "state_key": conversation.state_key}
    rows: list[dict[str, object]] = [
        {
            **common,
            "session_id": first.session_id,
            "is_forked": False,
            "forked_from_run": None,
            "created_at": first.created_at,
        },
        {
            **common,
            "session_id": session_id,
            "is_forked": True,
            "forked_from_run": after,
            # Not the transaction's time: it may have waited for one that began later.
            "created_at": sa.func.clock_timestamp(),
        },
    ]
    await tx.execute(postgresql.insert(conversation_branches).values(rows).on_conflict_do_nothing())


async def bytes_up_to(reader: Reader, transcript: Transcript, runs: Sequence[RunId]) -> int:
    """The size of a transcript up to the last line of these runs."""
    statement = sa.select(sa.func.coalesce(sa.func.sum(SIZE), 0)).where(_up_to(transcript, runs))
    return int((await reader.execute(statement)).scalar_one())


async def copy_transcript(
    tx: Transaction, transcript: Transcript, runs: Sequence[RunId], *, to: UUID
) -> None:
    """Copy a transcript up to the last line of these runs. The lines keep their ids and runs."""
    copied = (
        sa.select(
            _entries.project_key,
            sa.literal(str(to), sa.Text),
            _entries.subpath,
            _entries.entry_uuid,
            _entries.run_id,
            # Copies are not fenced: no attempt writes them.
            sa.null(),
            _entries.entry,
            _entries.objects,
        )
        .where(_up_to(transcript, runs))
        .order_by(_entries.position)
    )
    copies = ("project_key", "session_id", "subpath", "entry_uuid", "run_id", "attempt", "entry", "objects")
    await tx.execute(sa.insert(session_entries).from_select(list(copies), copied))


def _up_to(transcript: Transcript, runs: Sequence[RunId]) -> sa.ColumnElement[bool]:
    of_transcript = in_transcript(transcript)
    last = sa.select(sa.func.max(_entries.position)).where(of_transcript, is_one_of(_entries.run_id, runs))
    return of_transcript & (_entries.position <= last.scalar_subquery())


async def runs_with_lines(reader: Reader, transcript: Transcript, runs: Sequence[RunId]) -> Collection[RunId]:
    """Those of these runs of which a transcript has a message, of a user or of the model."""
    statement = (
        sa.select(_entries.run_id)
        .where(
            in_transcript(transcript),
            is_one_of(_entries.run_id, runs),
            # The CLI writes a line about a question before the question itself.
            json_text(_entries.entry, "type").in_(["user", "assistant"]),
        )
        .distinct()
    )
    return {RunId(row.run_id) for row in await reader.execute(statement)}


async def answered_runs(reader: Reader, project_key: str, runs: Mapping[RunId, UUID]) -> Collection[RunId]:
    """Those of these runs of which the model has a message in the transcript of their branch."""
    parameters = {
        "project_key": project_key,
        "sessions": [str(session_id) for session_id in runs.values()],
        "runs": list(runs),
        "unreadable": UNREADABLE,
    }
    return {RunId(row.run_id) for row in await reader.execute(_ANSWERED_RUNS, parameters)}


async def runs_with_messages(
    reader: Reader, project_key: str, runs: Mapping[RunId, UUID], ids: Collection[str]
) -> dict[str, RunId]:
    """Those of these ids that name messages of the model or their tool calls, and the run of each.

    Only messages of these runs; each is read in the transcript of its branch. What they contain is not
    fetched: a user's messages may have attachments.
    """
    parameters = {
        "project_key": project_key,
        "sessions": [str(session_id) for session_id in runs.values()],
        "runs": list(runs),
        "ids": list(ids),
        "unreadable": UNREADABLE,
    }
    return {row.id: RunId(row.run_id) for row in await reader.execute(_RUNS_WITH_MESSAGES, parameters)}


_ANSWER_LINES = """
      FROM unnest(CAST(:sessions AS text[]), CAST(:runs AS text[])) AS place (session_id, run_id)
     CROSS JOIN LATERAL (
           SELECT position, run_id,
                  CAST(regexp_replace(written, :unreadable, '\\ufffd', 'gi') AS json) AS entry
             -- Looking for a word is much faster than reading JSON, and a user's line may have a large file.
             FROM (SELECT position, run_id, CAST(entry AS text) AS written FROM session_entries
                    WHERE project_key = :project_key AND session_id = place.session_id AND subpath = ''
                      AND run_id = place.run_id AND strpos(CAST(entry AS text), '"assistant"') > 0
                   OFFSET 0) AS of_run
           OFFSET 0) AS line
"""
_ANSWERED_RUNS = sa.text(
    f"""
    SELECT DISTINCT line.run_id
    {_ANSWER_LINES}
     WHERE line.entry ->> 'type' = 'assistant'
       -- What the CLI writes itself, for example about errors.
       AND line.entry -> 'message' ->> 'model' IS DISTINCT FROM '<synthetic>'
    """  # noqa: S608 - no value is part of the statement
)
_RUNS_WITH_MESSAGES = sa.text(
    f"""
    SELECT named.id, line.run_id
    {_ANSWER_LINES}
     CROSS JOIN LATERAL (
           SELECT line.entry -> 'message' ->> 'id'
            UNION ALL
           SELECT block ->> 'id'
             FROM json_array_elements(CASE json_typeof(line.entry -> 'message' -> 'content') WHEN 'array'
                                      THEN line.entry -> 'message' -> 'content' ELSE '[]' END) AS block
            WHERE block ->> 'type' = 'tool_use') AS named (id)
     WHERE line.entry ->> 'type' = 'assistant' AND named.id = ANY (CAST(:ids AS text[]))
     ORDER BY line.position
    """  # noqa: S608 - as above
)
