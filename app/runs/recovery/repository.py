"""SQL for heartbeats, and for runs that another process takes over."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, and_, func, or_, select, text, tuple_, update
from sqlalchemy.dialects import postgresql

from app.db import Reader, Transaction, application_name
from app.ids import RunKey
from app.runs.records import UNFINISHED, RunRecord
from app.runs.repository import RUN_COLUMNS, run_of
from app.runs.tables import run_takeovers, runs


async def record_heartbeat(tx: Transaction, process_id: UUID, active_runs: Sequence[RunKey]) -> datetime:
    """Set the heartbeat of these runs of this process to now; returns the database's time."""
    await tx.execute(
        update(runs)
        .where(
            runs.c.process_id == process_id,
            runs.c.status.in_(UNFINISHED),
            tuple_(runs.c.account_id, runs.c.run_id).in_(active_runs),
        )
        .values(heartbeat_at=func.now()),
    )
    now: datetime = (await tx.execute(select(func.now()))).scalar_one()
    return now


async def lost_runs(tx: Transaction, attempts: Mapping[RunKey, int]) -> list[RunKey]:
    """Those of these runs whose attempt another process has taken over."""
    parameters = {
        "accounts": [run.account_id for run in attempts],
        "ids": [run.run_id for run in attempts],
        "attempts": list(attempts.values()),
    }
    return [RunKey(row.account_id, row.run_id) for row in await tx.execute(_LOST, parameters)]


async def cancelled_runs(tx: Transaction, process_id: UUID) -> list[RunKey]:
    """The runs of a process whose cancellation was stored, and has not been noticed by it."""
    interruption = runs.c.interruption
    statement = select(runs.c.account_id, runs.c.run_id).where(
        runs.c.process_id == process_id,
        runs.c.status.in_(UNFINISHED),
        interruption["kind"].as_string() == "cancel",
        interruption["state"].as_string() == "requested",
    )
    return [RunKey(row.account_id, row.run_id) for row in await tx.execute(statement)]


async def processes_without_heartbeat(
    reader: Reader, *, timeout_s: float, besides: Sequence[RunKey]
) -> list[UUID]:
    """The processes of unfinished runs except `besides` without a heartbeat for `timeout_s`."""
    silent = _without_heartbeat(timeout_s, besides)
    return list((await reader.execute(select(runs.c.process_id).where(silent).distinct())).scalars())


async def runs_without_heartbeat(
    tx: Transaction, *, timeout_s: float, of_processes: Sequence[UUID], besides: Sequence[RunKey]
) -> list[RunRecord]:
    """The unfinished runs of these processes except `besides` that are without a heartbeat; locks them."""
    statement = (
        select(*RUN_COLUMNS)
        .where(_without_heartbeat(timeout_s, besides), runs.c.process_id.in_(of_processes))
        .with_for_update(skip_locked=True)
    )
    return [run_of(row) for row in await tx.execute(statement)]


async def end_connections(tx: Transaction, processes: Sequence[UUID]) -> None:
    """End the connections of processes that stand still, and with them their transactions and locks."""
    names = [application_name(process_id) for process_id in processes]
    await tx.execute(
        text(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = ANY(:names) AND usename = current_user"
        ),
        {"names": names},
    )


async def record_takeovers(tx: Transaction, lost: Sequence[RunRecord]) -> None:
    """Fence the attempts of these runs, whose rows are locked: their process may only stand still."""
    if lost:
        rows = [{**run.key._asdict(), "attempt": run.attempt} for run in lost]
        await tx.execute(postgresql.insert(run_takeovers).on_conflict_do_nothing(), rows)


async def claim_run(tx: Transaction, key: RunKey, *, process_id: UUID) -> None:
    """Assign the run to a process and begin its next attempt."""
    await tx.execute(
        update(runs)
        .where(runs.c.account_id == key.account_id, runs.c.run_id == key.run_id)
        .values(
            process_id=process_id,
            status="queued",
            attempt=runs.c.attempt + 1,
            heartbeat_at=func.now(),
        )
    )


_LOST = text(
    """
    SELECT DISTINCT account_id, run_id FROM run_takeovers AS lost
      JOIN unnest(CAST(:accounts AS uuid[]), CAST(:ids AS text[]), CAST(:attempts AS int[]))
           AS active (account_id, run_id, attempt)
     USING (account_id, run_id)
     WHERE lost.attempt >= active.attempt
    """
)


def _without_heartbeat(timeout_s: float, besides: Sequence[RunKey]) -> ColumnElement[bool]:
    """A heartbeat in the future is from before the database's clock was set back."""
    timeout = func.make_interval(0, 0, 0, 0, 0, 0, timeout_s)
    return and_(
        runs.c.status.in_(UNFINISHED),
        tuple_(runs.c.account_id, runs.c.run_id).not_in(besides),
        or_(runs.c.heartbeat_at <= func.now() - timeout, runs.c.heartbeat_at > func.now() + timeout),
    )
