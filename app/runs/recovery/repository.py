"""SQL for heartbeats, and for runs that another process takes over."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.ids import AccountId, RunId, RunKey
from app.platform.db import Reader, Transaction
from app.platform.postgres.connecting import application_name
from app.runs.dispatch.records import Worker, Workers
from app.runs.records import RunRecord
from app.runs.repository import RUN_COLUMNS, run_of
from app.runs.tables import run_takeovers, runs, workers

_FORGOTTEN_S = 3600.0
"""After so long without a heartbeat the row of a process is deleted."""


async def record_worker(tx: Transaction, worker: Worker) -> None:
    """Insert or update the row of a worker; its heartbeat is now."""
    agents = None if worker.agents is None else json.dumps(worker.agents)
    await tx.execute(_RECORD_WORKER, asdict(worker) | {"agents": agents})


async def delete_worker(tx: Transaction, process_id: UUID) -> None:
    """A worker has ended, and executes no run any more."""
    await tx.execute(sa.delete(workers).where(workers.c.process_id == process_id))


async def live_workers(reader: Reader) -> Workers:
    row = (await reader.execute(_LIVE_WORKERS)).one()
    return Workers(row.with_free_places, row.first)


async def has_older_worker(reader: Reader, process_id: UUID, *, is_pooled: bool) -> bool:
    """Whether a worker that was started before this one is connected, and its heartbeat counts.

    Through a pooler no connection is a process's own: then the heartbeat alone decides.
    """
    has: bool = (
        await reader.execute(_OLDER_WORKER, {"process": process_id, "is_pooled": is_pooled})
    ).scalar_one()
    return has


async def cancelled_runs(tx: Transaction, process_id: UUID) -> list[RunKey]:
    """The runs of a process whose cancellation was stored, and has not been noticed by it."""
    interruption = runs.c.interruption
    statement = sa.select(runs.c.account_id, runs.c.run_id).where(
        runs.c.process_id == process_id,
        runs.c.status == "running",
        interruption["kind"].as_string() == "cancel",
        interruption["state"].as_string() == "requested",
    )
    return [RunKey(AccountId(row.account_id), RunId(row.run_id)) for row in await tx.execute(statement)]


async def database_time(tx: Transaction) -> datetime:
    """The database's clock, also within a transaction that has waited for locks."""
    now: datetime = (await tx.execute(sa.select(sa.func.clock_timestamp()))).scalar_one()
    return now


async def running_attempts(tx: Transaction, process_id: UUID) -> dict[RunKey, int]:
    statement = sa.select(runs.c.account_id, runs.c.run_id, runs.c.attempt).where(
        runs.c.process_id == process_id, runs.c.status == "running"
    )
    rows = await tx.execute(statement)
    return {RunKey(AccountId(row.account_id), RunId(row.run_id)): row.attempt for row in rows}


async def lost_runs(tx: Transaction, attempts: Mapping[RunKey, int]) -> list[RunKey]:
    """Those of these runs whose attempt another process has taken over."""
    parameters = {
        "accounts": [run.account_id for run in attempts],
        "ids": [run.run_id for run in attempts],
        "attempts": list(attempts.values()),
    }
    return [RunKey(row.account_id, row.run_id) for row in await tx.execute(_LOST, parameters)]


async def processes_without_heartbeat(reader: Reader, *, margin_s: float | None, besides: UUID) -> list[UUID]:
    """The processes of running runs whose last heartbeat counts no more, for `margin_s`; None: every one."""
    silent = sa.and_(runs.c.status == "running", runs.c.process_id != besides, _is_silent(margin_s))
    return list((await reader.execute(sa.select(runs.c.process_id).where(silent).distinct())).scalars())


async def lock_lost_runs(
    tx: Transaction, *, margin_s: float | None, of_processes: Sequence[UUID]
) -> list[RunRecord]:
    """The running runs of these processes that are still without a heartbeat; locks them."""
    lost = sa.and_(runs.c.status == "running", runs.c.process_id.in_(of_processes), _is_silent(margin_s))
    statement = sa.select(*RUN_COLUMNS).where(lost).with_for_update(skip_locked=True)
    return [run_of(row) for row in await tx.execute(statement)]


async def lock_unconfirmed_runs(
    tx: Transaction, process_id: UUID, attempts: Mapping[RunKey, int]
) -> list[RunRecord]:
    """Those of these attempts that are stored as running in this process; locks them."""
    statement = _running_attempts(process_id, attempts).with_for_update(skip_locked=True)
    return [run_of(row) for row in await tx.execute(statement)]


async def lock_attempt(tx: Transaction, key: RunKey, attempt: int) -> bool:
    """Whether this attempt of the run is stored as running; locks it."""
    statement = sa.select(runs.c.run_id).where(
        runs.c.account_id == key.account_id,
        runs.c.run_id == key.run_id,
        runs.c.attempt == attempt,
        runs.c.status == "running",
    )
    return (await tx.execute(statement.with_for_update(skip_locked=True))).first() is not None


async def delete_dead_workers(tx: Transaction) -> None:
    """Delete the rows of processes that ended long ago, and of which no run is left."""
    has_runs = sa.exists().where(runs.c.process_id == workers.c.process_id, runs.c.status == "running")
    long_ago = workers.c.seen_at < sa.func.now() - sa.func.make_interval(0, 0, 0, 0, 0, 0, _FORGOTTEN_S)
    await tx.execute(sa.delete(workers).where(long_ago, ~has_runs))


async def end_connections(tx: Transaction, processes: Sequence[UUID]) -> None:
    """End the transactions of processes that stand still, and with them their locks.

    A pooler gives other connections to others: they have the name of a process only while it uses them.
    """
    names = [application_name(process_id) for process_id in processes]
    await tx.execute(
        sa.text(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = ANY(:names) AND usename = current_user"
            " AND xact_start IS NOT NULL"
        ),
        {"names": names},
    )


async def lock_running_attempts(
    tx: Transaction, process_id: UUID, attempts: Mapping[RunKey, int]
) -> list[RunRecord]:
    """Those of these attempts that are stored as running in this process; waits until it has locked them."""
    statement = _running_attempts(process_id, attempts).order_by(runs.c.account_id, runs.c.run_id)
    return [run_of(row) for row in await tx.execute(statement.with_for_update())]


async def count_lost_attempts(tx: Transaction, key: RunKey) -> int:
    """How many attempts of the run have ended with their process, without being handed over."""
    statement = sa.select(sa.func.count()).where(
        run_takeovers.c.account_id == key.account_id,
        run_takeovers.c.run_id == key.run_id,
        ~run_takeovers.c.handed_over,
    )
    count: int = (await tx.execute(statement)).scalar_one()
    return count


async def record_takeovers(tx: Transaction, lost: Sequence[RunRecord], *, handed_over: bool = False) -> None:
    """Fence the attempts of these runs, whose rows are locked: their process may only stand still."""
    if lost:
        rows = [
            {
                **run.key._asdict(),
                "attempt": run.attempt,
                "handed_over": handed_over,
                "process_id": run.process_id,
            }
            for run in lost
        ]
        statement = postgresql.insert(run_takeovers).values(clock_ahead_s=_CLOCK_AHEAD_S)
        await tx.execute(
            statement.on_conflict_do_nothing(), [{**row, "lost": row["process_id"]} for row in rows]
        )


async def begin_handover(tx: Transaction, given: Sequence[RunRecord]) -> None:
    """Fence the attempts of these runs, whose rows are locked; the next ones are for other processes."""
    await record_takeovers(tx, given, handed_over=True)
    for run in given:
        is_run = sa.and_(runs.c.account_id == run.key.account_id, runs.c.run_id == run.key.run_id)
        await tx.execute(sa.update(runs).where(is_run).values(attempt=run.attempt + 1))


_CLOCK_AHEAD_S = sa.func.coalesce(
    sa.select(workers.c.clock_ahead_s).where(workers.c.process_id == sa.bindparam("lost")).scalar_subquery(),
    0,
)

_LOST = sa.text(
    """
    SELECT DISTINCT account_id, run_id FROM run_takeovers AS lost
      JOIN unnest(CAST(:accounts AS uuid[]), CAST(:ids AS text[]), CAST(:attempts AS int[]))
           AS active (account_id, run_id, attempt)
     USING (account_id, run_id)
     WHERE lost.attempt >= active.attempt
    """
)


def _running_attempts(process_id: UUID, attempts: Mapping[RunKey, int]) -> sa.Select[Any]:
    return sa.select(*RUN_COLUMNS).where(
        runs.c.status == "running",
        runs.c.process_id == process_id,
        sa.tuple_(runs.c.account_id, runs.c.run_id, runs.c.attempt).in_(
            [(run.account_id, run.run_id, attempt) for run, attempt in attempts.items()]
        ),
    )


def _is_silent(margin_s: float | None) -> sa.ColumnElement[bool]:
    """Whether the process of a run has no heartbeat that counts.

    A heartbeat in the future is from before the database's clock was set back.
    """
    if margin_s is None:
        return sa.true()
    term = sa.func.make_interval(0, 0, 0, 0, 0, 0, workers.c.lease_s + margin_s)
    counts = sa.and_(workers.c.seen_at > sa.func.now() - term, workers.c.seen_at <= sa.func.now() + term)
    return ~sa.exists().where(workers.c.process_id == runs.c.process_id, counts)


_RECORD_WORKER = sa.text(
    """
    INSERT INTO workers
        (process_id, role, version, places, taken, draining, agents, lease_s, clock_ahead_s, started_at,
         seen_at)
    VALUES (:process_id, :role, :version, :places, :taken, :draining, CAST(:agents AS json), :lease_s,
            :clock_ahead_s, now(), now())
    ON CONFLICT (process_id) DO UPDATE
       SET places = excluded.places, taken = excluded.taken, draining = excluded.draining,
           agents = excluded.agents, clock_ahead_s = excluded.clock_ahead_s, seen_at = now()
    """
)

_LIVE_WORKERS = sa.text(
    """
    SELECT count(*) FILTER (WHERE taken < places AND NOT draining) AS with_free_places,
           (array_agg(process_id ORDER BY started_at, process_id))[1] AS first
      FROM workers WHERE seen_at > now() - make_interval(secs => lease_s)
    """
)

_OLDER_WORKER = sa.text(
    """
    SELECT EXISTS (SELECT FROM workers
                    WHERE process_id < :process AND seen_at > now() - make_interval(secs => lease_s)
                      -- Connections of a process that was killed are closed at once.
                      AND (:is_pooled OR EXISTS (SELECT FROM pg_stat_activity
                                                  WHERE application_name = 'runtally ' || process_id)))
    """
)
