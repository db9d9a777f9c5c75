"""SQL that inserts runs; what decides is in functions of the database (see the migrations)."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    Boolean,
    FunctionElement,
    Integer,
    Interval,
    Text,
    Uuid,
    bindparam,
    case,
    cast,
    column,
    func,
    select,
    true,
)
from sqlalchemy.dialects import postgresql

from app.platform.db import Json, Transaction, UtcDateTime
from app.platform.serialization.stored_json import dump_json
from app.runs.dispatch.limits import RETRY_AFTER_S, DispatchLimits, QueueFull
from app.runs.dispatch.repository import limit_values
from app.runs.records import NewRun, RunRecord
from app.runs.repository import RUN_COLUMNS, record_of, run_of
from app.runs.tables import runs


async def insert_run(tx: Transaction, run: NewRun, *, limits: DispatchLimits) -> RunRecord | None:
    """Insert a run: as running if it may start at once in its process, else as queued.

    None if its id is taken, so exactly one caller may start it. Raises `QueueFull`.
    """
    columns = (await tx.execute(_INSERT, _values(run, limits))).one()._asdict()
    if (full_at := columns.pop("full_at")) is not None:
        raise QueueFull(retry_after_s=RETRY_AFTER_S, limit=full_at)
    return None if columns["run_id"] is None else record_of(columns)


async def insert_unlimited_run(
    tx: Transaction, run: NewRun, *, limits: DispatchLimits, size: int, max_stored: int | None
) -> RunRecord | None:
    """As `insert_run`, with all other checks of a run that has no conversation.

    None if it cannot be stored so: because of its key, its size, the quota, the queue or its id, or because
    something limits what its account spends.
    """
    values = {**_values(run, limits), "size": size, "max_stored": max_stored}
    row = (await tx.execute(_INSERT_UNLIMITED, values)).one_or_none()
    return None if row is None else run_of(row)


def _values(run: NewRun, limits: DispatchLimits) -> dict[str, Any]:
    conversation = run.conversation
    return {
        **limit_values(limits),
        "account_id": run.key.account_id,
        "run_id": run.key.run_id,
        "api_key_id": run.api_key_id,
        "graph_id": run.graph_id,
        "model": run.model,
        "request": run.request,
        "objects": sorted(run.objects) or None,
        "question": run.question,
        "request_hash": run.request_hash,
        "request_id": run.request_id,
        "process_id": run.process_id,
        "state_key": None if conversation is None else conversation.state_key,
        "turn": None if conversation is None else conversation.turns,
        "session_id": None if conversation is None else conversation.session_id,
        "message_id": run.message_id,
        "starts_at_once": run.starts_at_once,
        "start_after": run.start_after,
        "priority": run.priority,
        "max_waiting": limits.queued,
        "kept_for": limits.kept_for,
        "traceparent": None if run.caller_trace is None else run.caller_trace.traceparent,
        "tracestate": None if run.caller_trace is None else run.caller_trace.tracestate,
        "stops_unread": run.stops_unread or None,
        "shown_answer": None if run.shown_answer is None else dump_json(asdict(run.shown_answer)),
        "end_user": run.labels.end_user,
        "tags": _json_or_null(run.labels.tags),
        "metadata": _json_or_null(run.labels.metadata),
    }


def _json_or_null(value: Mapping[str, str] | None) -> str | None:
    return None if value is None else dump_json(dict(value))


_ARGUMENTS = tuple(
    cast(bindparam(name), type_)
    for name, type_ in (
        ("account_id", Uuid),
        ("api_key_id", Uuid),
        ("state_key", Text),
        ("turn", Integer),
        ("start_after", UtcDateTime),
        ("starts_at_once", Boolean),
        ("per_account", Integer),
        ("per_key", Integer),
        ("max_waiting", Integer),
        ("process_id", Uuid),
        ("kept_for", Interval),
    )
)
_ADMISSION = (
    column("held_for", Text),
    column("rank", Integer),
    column("queued_position", Integer),
    column("is_started", Boolean),
    column("offered_to", Uuid),
    column("full_at", Integer),
)


def _inserting(admission: FunctionElement[Any]) -> tuple[CTE, CTE]:
    """What the function decides, and the run that is inserted because of it."""
    admitted = select(*admission.table_valued(*_ADMISSION).c).cte("admitted")
    of_run = (
        *("account_id", "run_id", "api_key_id", "graph_id", "model", "question", "request_hash"),
        *("request_id", "state_key", "turn", "start_after", "priority", "traceparent", "tracestate"),
        *("session_id", "message_id", "stops_unread", "end_user", "objects"),
    )
    values = {
        **{name: cast(bindparam(name), runs.c[name].type) for name in of_run},
        **{name: cast(cast(bindparam(name), Text), Json) for name in ("request", "shown_answer", "metadata")},
        "tags": cast(cast(bindparam("tags"), Text), postgresql.JSONB),
        "created_at": func.now(),
        "status": case((admitted.c.is_started, "running"), else_="queued"),
        "process_id": case((admitted.c.is_started, cast(bindparam("process_id"), Uuid))),
        "started_at": case((admitted.c.is_started, func.now())),
        "held_for": admitted.c.held_for,
        "rank": admitted.c.rank,
        "ready_at": case((admitted.c.held_for.is_(None), func.now())),
        "offered_to": admitted.c.offered_to,
        "offered_until": case(
            (admitted.c.offered_to.is_not(None), func.now() + cast(bindparam("offered_for"), Interval))
        ),
        "queued_position": admitted.c.queued_position,
    }
    inserted = (
        postgresql.insert(runs)
        .from_select(list(values), select(*values.values()).where(admitted.c.full_at.is_(None)))
        .on_conflict_do_nothing()
        .returning(*RUN_COLUMNS)
        .cte("inserted")
    )
    return admitted, inserted


_admitted, _inserted = _inserting(func.admission(*_ARGUMENTS))
_INSERT = select(_admitted.c.full_at, *_inserted.c).select_from(_admitted.outerjoin(_inserted, true()))
_CHECKED = (cast(bindparam("size"), BigInteger), cast(bindparam("max_stored"), BigInteger))
_INSERT_UNLIMITED = select(*_inserting(func.unlimited_admission(*_CHECKED, *_ARGUMENTS))[1].c)
