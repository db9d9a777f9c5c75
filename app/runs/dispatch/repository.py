"""SQL of the queue of runs; what decides is in functions of the database (see the migration)."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy import text

from app.ids import AccountId, RunId, RunKey
from app.platform.db import Reader, Transaction, json_text
from app.platform.objects.documents import StoredDocument
from app.platform.postgres.prepared import Prepared
from app.runs.dispatch.limits import DispatchLimits
from app.runs.dispatch.records import ClaimedRun, ClaimedRuns, DueWork, QueuedCommand, StoredCommand
from app.runs.evidence.records import NewEvidence
from app.runs.evidence.repository import NEW_EVIDENCE, evidence_values
from app.runs.records import UNEXECUTED, RunRecord
from app.runs.repository import ENDED, RUN_COLUMNS, record_of, run_of
from app.runs.tables import queued_commands, runs

_commands = queued_commands.c
_SMALL_BYTES = 65_536

_COUNTED = 64
"""Of more ready runs every worker has its fill anyway."""


async def claim_runs(
    tx: Transaction, process_id: UUID, *, count: int, graphs: Sequence[str], workers: int
) -> ClaimedRuns:
    """Assign up to so many ready runs of these graphs to a process; their status is then running.

    Of few ready runs it gets its share among so many workers: after a takeover many become ready at once.
    """
    parameters = {"process": process_id, "count": count, "graphs": graphs, "workers": max(1, workers)}
    rows = [row._asdict() for row in await tx.execute(_CLAIM, parameters)]
    ready = max((row.pop("ready") for row in rows), default=0)
    return ClaimedRuns([_claimed(row) for row in rows], has_left_some=len(rows) < ready)


async def claim_run(
    tx: Transaction, process_id: UUID, run: RunKey, *, graphs: Sequence[str]
) -> ClaimedRun | None:
    """Assign this run to a process if it is ready and of these graphs, to whichever process it is offered."""
    parameters = {"process": process_id, "graphs": graphs, "account": run.account_id, "run": run.run_id}
    row = (await tx.execute(_CLAIM_ONE, parameters)).one_or_none()
    return None if row is None else _claimed(row._asdict())


async def is_active_run(reader: Reader, run: RunKey) -> bool:
    is_run = (runs.c.account_id == run.account_id) & (runs.c.run_id == run.run_id)
    is_active = runs.c.status.in_(("queued", "running")) & runs.c.held_for.is_(None)
    found: bool = (await reader.execute(sa.select(sa.exists().where(is_run, is_active)))).scalar_one()
    return found


async def has_ready_runs(reader: Reader) -> bool:
    has: bool = (await reader.execute(sa.select(sa.exists().where(_is_ready)))).scalar_one()
    return has


async def release_runs(
    tx: Transaction,
    account_id: AccountId,
    *,
    limits: DispatchLimits,
    conversation: str | None = None,
    process_id: UUID | None = None,
) -> int:
    """Make runs of an account ready as far as its limits allow; returns how many.

    `conversation` is that of a run that has ended in this process. Locks the dispatching of the account until
    the transaction ends: before the credit of the account is touched.
    """
    parameters = {
        **limit_values(limits),
        "account_id": account_id,
        "conversation": conversation,
        "process": process_id,
    }
    released: int = (await tx.execute(_RELEASE, parameters)).scalar_one()
    return released


async def end_run(
    tx: Transaction,
    run: RunKey,
    values: Mapping[str, Any],
    *,
    evidence: Sequence[NewEvidence],
    limits: DispatchLimits,
    process_id: UUID,
    is_debited: bool,
    may_share: bool,
) -> datetime | None:
    """End a run, store its events and evidence, and release the runs that waited for it; returns when.

    `values` are those of `finish_values`. None if it has ended already or is at another attempt; then nothing
    has changed. `is_debited`: its receipts are stored, so what it has reserved is released. `may_share`: it
    waits for no other end; raises `NothingStored` if a run has begun to wait for one meanwhile.
    """
    parameters = {
        **run._asdict(),
        **values,
        **evidence_values(evidence),
        **limit_values(limits),
        "process": process_id,
        "is_debited": is_debited,
    }
    statement = _END_TOGETHER if may_share else _END
    return next((row["ended_at"] for row in await statement.fetch(tx, parameters)), None)


async def due_work(reader: Reader, limits: DispatchLimits) -> DueWork:
    """Accounts with runs to release, and runs in no process to cancel: chats may have moved on."""
    rows = (await reader.execute(_DUE, {"per_account": limits.per_account})).all()
    return DueWork(
        to_release=[(AccountId(row.account_id), row.state_key) for row in rows if row.run_id is None],
        to_cancel=[
            RunKey(AccountId(row.account_id), RunId(row.run_id)) for row in rows if row.run_id is not None
        ],
    )


async def lock_unexecuted_run(tx: Transaction, key: RunKey) -> RunRecord | None:
    """The run if it is queued or waits, locked so that no worker starts it before the transaction ends."""
    row = (await tx.execute(_LOCK_UNEXECUTED, key._asdict())).one_or_none()
    return None if row is None else run_of(row)


async def queued_commands_of(reader: Reader, run: RunKey) -> list[StoredCommand]:
    """The commands that wait for the run's start, in order, without their contents."""
    statement = (
        sa.select(
            json_text(_commands.command, "messageId").label("message_id"),
            json_text(_commands.command, "mode").label("mode"),
            _commands.bytes.label("size"),
        )
        .where(_commands.account_id == run.account_id, _commands.run_id == run.run_id)
        .order_by(_commands.id)
    )
    return [StoredCommand(row.message_id, row.mode, row.size) for row in await reader.execute(statement)]


async def insert_queued_command(tx: Transaction, waiting: QueuedCommand) -> None:
    values = {**waiting.run._asdict(), "command": waiting.command}
    await tx.execute(sa.insert(queued_commands).values(values))
    is_run = (runs.c.account_id == waiting.run.account_id) & (runs.c.run_id == waiting.run.run_id)
    await tx.execute(sa.update(runs).where(is_run).values(has_commands=True))


async def take_queued_commands(tx: Transaction, run: RunKey) -> list[dict[str, Any]]:
    """The commands that waited for the run's start, in order; they are deleted."""
    is_run = (_commands.account_id == run.account_id) & (_commands.run_id == run.run_id)
    statement = sa.delete(queued_commands).where(is_run).returning(_commands.id, _commands.command)
    rows = (await tx.execute(statement)).all()
    return [row.command for row in sorted(rows, key=lambda row: int(row.id))]


def _claimed(columns: dict[str, Any]) -> ClaimedRun:
    text, objects, has_commands = (columns.pop(name) for name in ("request_text", "objects", "has_commands"))
    request = None if text is None else StoredDocument(columns["account_id"], text, frozenset(objects or ()))
    return ClaimedRun(record_of(columns), request, has_commands)


def limit_values(limits: DispatchLimits) -> dict[str, Any]:
    """The parameters of `release_runs` that are limits."""
    return {
        "per_account": limits.per_account,
        "per_key": limits.per_key,
        "offered_for": limits.offered_for,
    }


_is_ready = sa.and_(runs.c.status == "queued", runs.c.held_for.is_(None))
_is_offered = sa.or_(
    runs.c.offered_to.is_(None),
    runs.c.offered_to == sa.bindparam("process", type_=sa.Uuid),
    runs.c.offered_until <= sa.func.now(),
    # Stored before the database's clock went back.
    runs.c.offered_until > sa.func.now() + timedelta(hours=1),
)
_is_known = sa.or_(
    runs.c.graph_id == sa.any_(sa.cast(sa.bindparam("graphs"), sa.ARRAY(sa.Text))),
    # A graph that no worker knows fails in one that does not.
    runs.c.ready_at < sa.func.now() - timedelta(minutes=1),
)
_ready = sa.select(runs.c.account_id, runs.c.run_id).where(_is_ready, runs.c.interruption.is_(None))


def _claim_of(ready: sa.Select[Any], *columns: sa.ColumnElement[Any], skip_locked: bool) -> sa.Executable:
    """Assigns these runs to a process and returns them, with these columns besides."""
    next_ = ready.with_for_update(skip_locked=skip_locked).cte("next")
    return (
        sa.update(runs)
        .where(runs.c.account_id == next_.c.account_id, runs.c.run_id == next_.c.run_id)
        .values(
            status="running",
            process_id=sa.bindparam("process", type_=sa.Uuid),
            # The deadline counts from the first attempt. Not `now()`: that is when the transaction has begun,
            # which may be before the end of the run that this one has waited for.
            started_at=sa.func.coalesce(runs.c.started_at, sa.func.clock_timestamp()),
            offered_to=None,
            offered_until=None,
        )
        .returning(
            *RUN_COLUMNS,
            # With the claim, because each further statement would delay the start.
            sa.case((runs.c.bytes <= _SMALL_BYTES, sa.cast(runs.c.request, sa.Text))).label("request_text"),
            runs.c.objects,
            # A column of the locked row: a query of the other table would miss what was just committed.
            runs.c.has_commands,
            *columns,
        )
    )


_for_any = _ready.where(_is_offered, _is_known)
_counted = (
    sa.select(sa.func.count().label("ready")).select_from(_for_any.limit(_COUNTED).subquery()).cte("counted")
)
_count, _workers = (sa.bindparam(name, type_=sa.Integer) for name in ("count", "workers"))
_share = sa.select(sa.func.least(_count, (_counted.c.ready + _workers - 1) // _workers)).scalar_subquery()
_CLAIM = _claim_of(
    _for_any.order_by(runs.c.rank, runs.c.ready_at).limit(_share),
    sa.select(_counted.c.ready).scalar_subquery().label("ready"),
    skip_locked=True,
)
_CLAIM_ONE = _claim_of(
    _ready.where(
        runs.c.account_id == sa.bindparam("account"), runs.c.run_id == sa.bindparam("run"), _is_known
    ),
    # A command to the queued run, or its submission, may have locked it for a moment.
    skip_locked=False,
)

_LOCK_UNEXECUTED = (
    sa.select(*RUN_COLUMNS)
    .where(
        runs.c.account_id == sa.bindparam("account_id"),
        runs.c.run_id == sa.bindparam("run_id"),
        runs.c.status.in_(UNEXECUTED),
    )
    .with_for_update()
)

_RELEASE = text(
    """
    SELECT release_runs(
        CAST(:account_id AS uuid), CAST(:conversation AS text), CAST(:process AS uuid),
        CAST(:per_account AS int), CAST(:per_key AS int), CAST(:offered_for AS interval))
    """
)


def _ending(release: str) -> Prepared:
    """The run's row, its account's queue, its credit: the same order everywhere, so no deadlock.

    `release` and `release_credit` see what the statement has changed before it calls them.
    """
    statement = f"""
    {ENDED}, evidence AS (
        INSERT INTO run_evidence (account_id, run_id, position, at, type, content)
        SELECT account_id, run_id, new.* FROM ended, {NEW_EVIDENCE}
        ON CONFLICT DO NOTHING
    ), followed AS MATERIALIZED (
        SELECT account_id, run_id, ended_at,
               {release}(account_id, state_key, CAST(:process AS uuid), CAST(:per_account AS int),
                         CAST(:per_key AS int), CAST(:offered_for AS interval)) AS released
          FROM ended
    )
    SELECT ended_at, CASE WHEN :is_debited THEN release_credit(account_id, run_id) END FROM followed
    """  # noqa: S608 - constants
    return Prepared(statement)


_END, _END_TOGETHER = _ending("release_runs"), _ending("release_together")

_DUE = text(
    """
    -- Materialized: otherwise the active runs are counted for each run that is held.
    WITH held AS MATERIALIZED (SELECT DISTINCT account_id FROM runs WHERE held_for = 'limit')
    SELECT account_id, CAST(NULL AS text) AS state_key, CAST(NULL AS text) AS run_id
      FROM runs WHERE held_for = 'start_time' AND start_after <= now()
    UNION
    SELECT account_id, NULL, NULL FROM held
     WHERE active_runs(account_id) < active_limit(CAST(:per_account AS int))
    UNION
    SELECT account_id, state_key, NULL FROM runs AS held
     WHERE held_for = 'turn' AND NOT EXISTS (
           SELECT FROM runs AS earlier
            WHERE earlier.account_id = held.account_id AND earlier.state_key = held.state_key
              AND earlier.turn < held.turn AND earlier.status IN ('queued', 'running', 'waiting'))
    UNION
    SELECT account_id, NULL, run_id FROM runs WHERE held_for IS NOT NULL AND interruption IS NOT NULL
    UNION
    SELECT account_id, NULL, run_id FROM runs
     WHERE status = 'queued' AND held_for IS NULL AND interruption IS NOT NULL
    UNION
    SELECT account_id, NULL, run_id FROM runs WHERE status = 'waiting' AND interruption IS NOT NULL
    UNION
    -- A chat whose client has moved on: its next message waits behind a call of a client tool.
    SELECT waiting.account_id, NULL, waiting.run_id
      FROM runs AS later JOIN runs AS waiting USING (account_id, state_key)
     WHERE later.held_for = 'turn' AND later.message_id IS NOT NULL
       AND waiting.turn < later.turn AND waiting.status = 'waiting' AND waiting.message_id IS NOT NULL
       AND EXISTS (SELECT FROM run_waits AS call
                    WHERE call.account_id = waiting.account_id AND call.run_id = waiting.run_id
                      AND call.kind = 'client_tool' AND call.resolved_by IS NULL)
    """
)
