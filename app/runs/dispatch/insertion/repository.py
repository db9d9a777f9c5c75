"""SQL that inserts runs; what decides is in functions of the database (see the migrations)."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.conversations.records import Conversation, TranscriptState, TurnBeginning
from app.conversations.repository import bytes_in, taking_turn
from app.conversations.tables import sessions
from app.platform.db import Json, NothingStored, Transaction, UtcDateTime
from app.platform.postgres.prepared import Prepared
from app.platform.serialization.stored_json import dump_json
from app.runs.dispatch.insertion.records import AtOnce, StoredAtOnce
from app.runs.dispatch.limits import RETRY_AFTER_S, DispatchLimits, QueueFull
from app.runs.dispatch.repository import limit_values
from app.runs.records import NewRun, RunRecord
from app.runs.repository import RUN_COLUMNS, record_of
from app.runs.tables import runs


async def insert_run(tx: Transaction, run: NewRun, *, limits: DispatchLimits) -> RunRecord | None:
    """Insert a run: as running if it may start at once in its process, else as queued.

    None if its id is taken, so exactly one caller may start it. Raises `QueueFull`.
    """
    columns = (await tx.execute(_INSERT, _values(run, limits))).one()._asdict()
    if (full_at := columns.pop("full_at")) is not None:
        raise QueueFull(retry_after_s=RETRY_AFTER_S, limit=full_at)
    return None if columns["run_id"] is None else record_of(columns)


async def insert_run_at_once(
    tx: Transaction, run: NewRun, given: AtOnce, *, limits: DispatchLimits
) -> StoredAtOnce:
    """As `insert_run`, with all other checks of a run; takes its turn and reserves its credit.

    Raises `NothingStored` if that needs more: because of the key, the quota, the credit, a budget, the queue,
    the id or the conversation.
    """
    of_turn = {} if given.turn is None else given.turn._asdict()
    values = {**_values(run, limits), **given._asdict(), **of_turn}
    statement = _INSERT_TURN if of_turn else _INSERT_ALONE
    if not (rows := await statement.fetch(tx, values)):
        raise NothingStored
    columns = dict(rows[0])
    reserved = columns.pop("reserved")
    if not of_turn:
        return StoredAtOnce(record_of(columns), reserved, None, None)
    session = {name: columns.pop(label) for name, label in _OF_SESSION.items()}
    follows_success, *state = (columns.pop(each.name) for each in _BEGINNING)
    beginning = None if follows_success is None else TurnBeginning(follows_success, TranscriptState(*state))
    return StoredAtOnce(record_of(columns), reserved, Conversation(**session), beginning)


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


_ARGUMENTS = (
    ("account_id", sa.Uuid),
    ("api_key_id", sa.Uuid),
    ("state_key", sa.Text),
    ("turn", sa.Integer),
    ("start_after", UtcDateTime),
    ("starts_at_once", sa.Boolean),
    ("per_account", sa.Integer),
    ("per_key", sa.Integer),
    ("max_waiting", sa.Integer),
    ("process_id", sa.Uuid),
    ("kept_for", sa.Interval),
)
_ADMISSION = (
    sa.column("held_for", sa.Text),
    sa.column("rank", sa.Integer),
    sa.column("queued_position", sa.Integer),
    sa.column("is_started", sa.Boolean),
    sa.column("offered_to", sa.Uuid),
    sa.column("full_at", sa.Integer),
)


def _after(first: sa.FromClause | None, then: sa.FromClause) -> sa.FromClause:
    return then if first is None else first.join(then, sa.true())


def _inserting(
    first: sa.FromClause | None = None, *having: sa.ColumnElement[bool], **of_first: sa.ColumnElement[Any]
) -> tuple[sa.CTE, sa.CTE]:
    """What the function `admission` decides, and the run that is inserted because of it.

    `of_first`: columns of `first` instead of parameters, so that it is executed before the function.
    """
    arguments = (of_first.get(name, sa.cast(sa.bindparam(name), type_)) for name, type_ in _ARGUMENTS)
    decided = sa.func.admission(*arguments).table_valued(*_ADMISSION)
    admitted = sa.select(*decided.c).select_from(_after(first, decided)).cte("admitted")
    of_run = (
        *("account_id", "run_id", "api_key_id", "graph_id", "model", "question", "request_hash"),
        *("request_id", "state_key", "turn", "start_after", "priority", "traceparent", "tracestate"),
        *("session_id", "message_id", "stops_unread", "end_user", "objects"),
    )
    values = {
        **{name: of_first.get(name, sa.cast(sa.bindparam(name), runs.c[name].type)) for name in of_run},
        **{
            name: sa.cast(sa.cast(sa.bindparam(name), sa.Text), Json)
            for name in ("request", "shown_answer", "metadata")
        },
        "tags": sa.cast(sa.cast(sa.bindparam("tags"), sa.Text), postgresql.JSONB),
        "created_at": sa.func.now(),
        "status": sa.case((admitted.c.is_started, "running"), else_="queued"),
        "process_id": sa.case((admitted.c.is_started, sa.cast(sa.bindparam("process_id"), sa.Uuid))),
        "started_at": sa.case((admitted.c.is_started, sa.func.now())),
        "held_for": admitted.c.held_for,
        "rank": admitted.c.rank,
        "ready_at": sa.case((admitted.c.held_for.is_(None), sa.func.now())),
        "offered_to": admitted.c.offered_to,
        "offered_until": sa.case(
            (
                admitted.c.offered_to.is_not(None),
                sa.func.now() + sa.cast(sa.bindparam("offered_for"), sa.Interval),
            )
        ),
        "queued_position": admitted.c.queued_position,
    }
    rows = sa.select(*values.values()).select_from(_after(first, admitted))
    # Found without a wait: who ends the other run has its row, and waits for what `admission` has locked.
    is_taken = sa.func.has_run(values["account_id"], values["run_id"], type_=sa.Boolean)
    rows = rows.where(admitted.c.full_at.is_(None), ~is_taken, *having)
    inserted = (
        postgresql.insert(runs)
        .from_select(list(values), rows)
        .on_conflict_do_nothing()
        .returning(*RUN_COLUMNS)
        .cte("inserted")
    )
    return admitted, inserted


_admitted, _inserted = _inserting()
_INSERT = sa.select(_admitted.c.full_at, *_inserted.c).select_from(_admitted.outerjoin(_inserted, sa.true()))

_OF_SESSION = {column_.name: f"conversation_{column_.name}" for column_ in sessions.c}
_BEGINNING: tuple[sa.ColumnClause[Any], ...] = (
    sa.column("follows_success", sa.Boolean),
    *(sa.column(name, sa.BigInteger) for name in ("lines", "bytes", "last_position")),
)
_found = sa.func.usable_key(
    *(sa.cast(sa.bindparam("account_id"), sa.Uuid), sa.cast(sa.bindparam("api_key_id"), sa.Uuid)),
    *(sa.cast(sa.bindparam("size"), sa.BigInteger), sa.cast(sa.bindparam("max_stored"), sa.BigInteger)),
    type_=sa.Uuid,
).column_valued("id")
_usable_key = sa.select(_found).cte("usable_key")


def _reserving(inserted: sa.CTE) -> sa.ColumnElement[Any]:
    """What is reserved for the run; nothing at all is stored if there is none."""
    of_run = (sa.cast(sa.bindparam("account_id"), sa.Uuid), inserted.c.run_id)
    amount = (sa.cast(sa.bindparam("credits"), sa.BigInteger), sa.cast(sa.bindparam("at"), UtcDateTime))
    return sa.func.reserve_at_once(*of_run, *amount).label("reserved")


def _inserting_alone() -> sa.Select[Any]:
    _, inserted = _inserting(_usable_key, api_key_id=_usable_key.c.id)
    return sa.select(*inserted.c, _reserving(inserted))


def _inserting_turn() -> sa.Select[Any]:
    taken = taking_turn(_usable_key).cte("taken")
    stored = bytes_in(sa.cast(taken.c.account_id, sa.Text), sa.cast(taken.c.session_id, sa.Text))
    fits = stored < sa.cast(sa.bindparam("max_transcript"), sa.BigInteger)
    of_turn = {"state_key": taken.c.state_key, "turn": taken.c.turns, "session_id": taken.c.session_id}
    is_own = taken.c.executor == sa.cast(sa.bindparam("executor"), sa.Text)
    _, inserted = _inserting(taken, fits, is_own, **of_turn)
    of_session = (column_.label(_OF_SESSION[column_.name]) for column_ in taken.c)
    of_run = (inserted.c[name] for name in ("account_id", "state_key", "session_id", "turn"))
    beginning = sa.func.turn_begins_with(*of_run).table_valued(*_BEGINNING)
    found = taken.outerjoin(inserted, sa.true()).outerjoin(beginning, inserted.c.status == "running")
    return sa.select(*inserted.c, *of_session, *beginning.c, _reserving(inserted)).select_from(found)


_INSERT_ALONE, _INSERT_TURN = Prepared(_inserting_alone()), Prepared(_inserting_turn())
