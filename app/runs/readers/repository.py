"""SQL for the readers of runs."""

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text

from app.ids import AccountId, RunId, RunKey
from app.platform.db import Reader, Transaction
from app.runs.readers.records import ReadersOfRun
from app.runs.records import RunRecord

_GIVEN = "unnest(CAST(:accounts AS uuid[]), CAST(:ids AS text[])) AS given (account_id, run_id)"


def _locking(runs: str, having: str = "true") -> str:
    """A condition: that a row is of these runs. Locks those rows in the order in which they are recorded."""
    return f"""
    (account_id, run_id, process_id) IN (
        SELECT account_id, run_id, run_readers.process_id
          FROM run_readers JOIN {runs} USING (account_id, run_id) WHERE {having}
         ORDER BY account_id, run_id, run_readers.process_id FOR UPDATE OF run_readers)
    """  # noqa: S608 - constants


async def record_readers(tx: Transaction, process_id: UUID, runs: Collection[RunKey]) -> None:
    """A process has readers of these runs now."""
    await tx.execute(_RECORD, {**_keys(runs), "process_id": process_id})


async def record_left(tx: Transaction, process_id: UUID, runs: Collection[RunKey]) -> None:
    """A process has no readers of these runs any more; its rows stay, and are not renewed."""
    await tx.execute(_LEAVE, {**_keys(runs), "process_id": process_id})


async def runs_left_before(reader: Reader, run: RunRecord, process_id: UUID) -> list[RunKey]:
    """The active earlier runs of its conversation that other processes had readers of and have none now.

    What this process has the caller knows.
    """
    place = {"account_id": run.key.account_id, "state_key": run.state_key, "turn": run.turn}
    rows = await reader.execute(_LEFT_BEFORE, {**place, "process_id": process_id})
    return [RunKey(AccountId(row.account_id), RunId(row.run_id)) for row in rows]


async def forget_readers(tx: Transaction, runs: Collection[RunKey]) -> None:
    """Delete what is known of these runs' readers; those that are reading are recorded again."""
    await tx.execute(_FORGET, _keys(runs))


async def forget_readers_of_ended_runs(tx: Transaction) -> None:
    """Delete what is known of the readers of runs that have ended."""
    await tx.execute(_FORGET_ENDED)


async def unexecuted_runs_with_readers(reader: Reader) -> list[RunKey]:
    return [RunKey(AccountId(row.account_id), RunId(row.run_id)) for row in await reader.execute(_QUEUED)]


async def readers_of(reader: Reader, runs: Collection[RunKey]) -> dict[RunKey, ReadersOfRun]:
    seen: dict[RunKey, set[tuple[UUID, datetime]]] = defaultdict(set)
    ended: set[RunKey] = set()
    for row in await reader.execute(_READERS, _keys(runs)):
        run = RunKey(AccountId(row.account_id), RunId(row.run_id))
        if row.has_ended:
            ended.add(run)
        if row.process_id is not None:
            seen[run].add((row.process_id, row.seen_at))
    return {run: ReadersOfRun(run in ended, frozenset(seen[run])) for run in runs}


def _keys(runs: Collection[RunKey]) -> dict[str, Any]:
    return {"accounts": [run.account_id for run in runs], "ids": [run.run_id for run in runs]}


_RECORD = text(
    f"""
    INSERT INTO run_readers (account_id, run_id, process_id, seen_at)
    SELECT account_id, run_id, :process_id, clock_timestamp()
      FROM runs JOIN {_GIVEN} USING (account_id, run_id)
     WHERE ended_at IS NULL
     ORDER BY account_id, run_id
    ON CONFLICT (account_id, run_id, process_id) DO UPDATE SET seen_at = EXCLUDED.seen_at
    """  # noqa: S608 - no value is part of the statement
)
_OWN = _locking(_GIVEN, "process_id = :process_id")
_LEAVE = text(f"UPDATE run_readers SET seen_at = 'epoch' WHERE {_OWN}")  # noqa: S608 - as above
_LEFT_BEFORE = text(
    """
    SELECT account_id, run_id FROM runs JOIN run_readers USING (account_id, run_id)
     WHERE account_id = :account_id AND state_key = :state_key AND turn < :turn
       AND status IN ('queued', 'running', 'waiting') AND stops_unread
     GROUP BY account_id, run_id
    HAVING bool_and(seen_at = 'epoch' OR run_readers.process_id = :process_id)
    """
)
_FORGET = text(f"DELETE FROM run_readers WHERE {_locking(_GIVEN)}")  # noqa: S608 - as above
_FORGET_ENDED = text(f"DELETE FROM run_readers WHERE {_locking('runs', 'ended_at IS NOT NULL')}")  # noqa: S608
_QUEUED = text(
    """
    SELECT DISTINCT account_id, run_id FROM run_readers JOIN runs USING (account_id, run_id)
     WHERE status IN ('queued', 'waiting')
    """
)
_READERS = text(
    f"""
    SELECT runs.account_id, runs.run_id, ended_at IS NOT NULL AS has_ended, process_id, seen_at
      FROM (SELECT account_id, run_id, ended_at FROM runs JOIN {_GIVEN} USING (account_id, run_id)) AS runs
      LEFT JOIN run_readers USING (account_id, run_id)
    """  # noqa: S608 - as above
)
