"""SQL for runs and their stored events."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Text, and_, bindparam, cast, func, select, text, true, update

from app.conversations.cuts.answer_cuts import ShownAnswer
from app.conversations.records import Conversation
from app.events import MeterReport
from app.ids import AccountId, RunId, RunKey
from app.platform.clock.event_times import milliseconds
from app.platform.clock.gaps import decode_gaps
from app.platform.db import Reader, Transaction, page_of
from app.platform.objects.documents import StoredDocument
from app.platform.pagination import PageRequest
from app.platform.postgres.labels import labels_match
from app.platform.postgres.statements import is_one_of
from app.platform.serialization.stored_json import dump_json
from app.platform.telemetry.trace_context import CallerTrace
from app.requests.attribution import RunLabels
from app.requests.outcome import GraphFinal
from app.runs.feedback.repository import feedback_of
from app.runs.records import AT_END, UNFINISHED, RunFilter, RunRecord, StoredEvents
from app.runs.tables import run_events, runs
from app.tools.skills.records import Skill
from app.usage.records import CostComparison, Meters

STORED_BYTES = 256 * 1024
"""How much of a run's stored events is read at once."""
_COSTS = TypeAdapter(CostComparison | None)

_ROWS = 500
_LAST_TURN = 2**31 - 1


async def find_run(reader: Reader, key: RunKey) -> RunRecord | None:
    row = (await reader.execute(_FIND, _key(key))).one_or_none()
    return None if row is None else run_of(row)


async def find_runs(reader: Reader, account_id: AccountId, run_ids: Sequence[RunId]) -> list[RunRecord]:
    """The account's runs with these ids, in the order of `run_ids`."""
    statement = select(*RUN_COLUMNS).where(runs.c.account_id == account_id, runs.c.run_id.in_(run_ids))
    found = {run.key.run_id: run for run in map(run_of, await reader.execute(statement))}
    return [found[run_id] for run_id in run_ids if run_id in found]


async def with_contents(reader: Reader, account_id: AccountId, run_ids: Sequence[RunId]) -> set[RunId]:
    """Those of the account's runs with these ids whose contents were not deleted."""
    is_given = (runs.c.account_id == account_id, is_one_of(runs.c.run_id, run_ids))
    statement = select(runs.c.run_id).where(*is_given, runs.c.contents_deleted_at.is_(None))
    return set((await reader.execute(statement)).scalars())


async def existing_runs(reader: Reader, account_id: AccountId, run_ids: Sequence[RunId]) -> set[RunId]:
    """Those of these ids that runs of the account have."""
    statement = select(runs.c.run_id).where(
        runs.c.account_id == account_id, is_one_of(runs.c.run_id, run_ids)
    )
    return set((await reader.execute(statement)).scalars())


async def newest_runs(
    reader: Reader, account_id: AccountId, page: PageRequest, chosen: RunFilter
) -> list[RunRecord]:
    equal = ("status", "graph_id", "model", "api_key_id", "state_key")
    of_account = select(*RUN_COLUMNS).where(
        runs.c.account_id == account_id,
        *(runs.c[name] == value for name in equal if (value := getattr(chosen, name)) is not None),
        *labels_match(runs.c, chosen.labels),
        true() if chosen.accepted_from is None else runs.c.created_at >= chosen.accepted_from,
        true() if chosen.accepted_to is None else runs.c.created_at < chosen.accepted_to,
    )
    statement = page_of(of_account, page, at=runs.c.created_at, id_=runs.c.run_id)
    return [run_of(row) for row in await reader.execute(statement)]


async def unfinished_turns(
    reader: Reader, conversation: Conversation, *, before: int | None = None
) -> list[RunKey]:
    """Runs of a conversation that have not ended, oldest first; `before` limits them to earlier turns."""
    parameters = {
        "account_id": conversation.account_id,
        "state_key": conversation.state_key,
        "before": _LAST_TURN if before is None else before,
    }
    rows = await reader.execute(_UNFINISHED_TURNS, parameters)
    return [RunKey(conversation.account_id, RunId(row.run_id)) for row in rows]


async def store_interruption(
    tx: Transaction, key: RunKey, interruption: dict[str, Any], *, attempt: int
) -> None:
    """Store the state of the request to stop the run, unless it is at another attempt.

    A cancellation that another process has stored meanwhile remains.
    """
    at_attempt = and_(_is(key), runs.c.attempt == attempt)
    of_run = runs.c.interruption["kind"].as_string()
    is_later = of_run.is_distinct_from("cancel") if interruption["kind"] == "interrupt" else true()
    await tx.execute(update(runs).where(at_attempt, is_later).values(interruption=interruption))


async def finish_run(
    tx: Transaction,
    key: RunKey,
    *,
    attempt: int,
    final: GraphFinal,
    report: MeterReport | None,
    events: Sequence[StoredEvents],
) -> datetime | None:
    """End a run and store its events; returns when it has ended, which is not before any of them.

    None if it has ended already or is at another attempt (fencing).
    """
    values = finish_values(attempt, final, report, skills=(), events=events)
    ended_at: datetime | None = (await tx.execute(_FINISH, {**_key(key), **values})).scalar_one_or_none()
    return ended_at


def finish_values(
    attempt: int,
    final: GraphFinal,
    report: MeterReport | None,
    *,
    skills: Sequence[Skill],
    events: Sequence[StoredEvents],
) -> dict[str, Any]:
    """The parameters of `ENDED`, besides the run."""
    return {
        "attempt": attempt,
        "status": final.status,
        **report_values(report),
        "final": dump_json(final.model_dump(mode="json", by_alias=True)),
        "skills": dump_json({skill.name: skill.sha256 for skill in skills}) if skills else None,
        "never_called": _never_called(report),
        "latest": _latest(events),
        **event_values(events),
    }


def report_values(report: MeterReport | None) -> dict[str, Any]:
    """The parameters of `STORE_REPORT`."""
    return {
        "meters": None if report is None else dump_json(_counts(report.meters)),
        "cost_comparison": None if report is None else _dumped_cost(report),
        "tool_failures": None if report is None else report.tool_failures,
    }


def event_values(events: Sequence[StoredEvents]) -> dict[str, Any]:
    """The parameters of `STORE_EVENTS`."""
    return {
        "positions": [stored.position for stored in events],
        "last_positions": [stored.last_position for stored in events],
        "data": [dump_json(stored.data) for stored in events],
        "times": [stored.at for stored in events],
        "gaps": [stored.gaps for stored in events],
    }


async def has_ended(reader: Reader, key: RunKey) -> bool:
    """Whether it has; False where it does not exist any more: a replica without it may have taken over."""
    statement = select(runs.c.ended_at.is_not(None)).where(_is(key))
    return bool((await reader.execute(statement)).scalar_one_or_none())


async def ended_runs(reader: Reader, keys: Sequence[RunKey]) -> list[RunKey]:
    accounts, ids = [key.account_id for key in keys], [key.run_id for key in keys]
    rows = await reader.execute(_ENDED, {"accounts": accounts, "ids": ids})
    return [RunKey(row.account_id, row.run_id) for row in rows]


async def stored_events(
    reader: Reader, key: RunKey, *, after: int = 0, max_bytes: int = STORED_BYTES
) -> list[StoredEvents]:
    """Stored events of a finished run after a position, in order: about `max_bytes`, at least one row."""
    before = func.sum(run_events.c.bytes).over(order_by=run_events.c.position) - run_events.c.bytes
    sized = (
        select(*_EVENT_COLUMNS, before.label("before"))
        .where(
            run_events.c.account_id == key.account_id,
            run_events.c.run_id == key.run_id,
            run_events.c.last_position > after,
        )
        .order_by(run_events.c.position)
        .limit(_ROWS)
        .subquery()
    )
    statement = select(sized).where(sized.c.before < max_bytes).order_by(sized.c.position)
    rows = await reader.execute(statement)
    return [
        StoredEvents(
            *(row.position, row.last_position, row.data),
            at=0 if row.at is None else milliseconds(row.at),
            gaps=row.gaps,
        )
        for row in rows
    ]


async def last_stored_position(reader: Reader, key: RunKey) -> int | None:
    """The position of the last stored event of a run; None without any."""
    of_run = (run_events.c.account_id == key.account_id, run_events.c.run_id == key.run_id)
    statement = (
        select(run_events.c.last_position).where(*of_run).order_by(run_events.c.position.desc()).limit(1)
    )
    position: int | None = (await reader.execute(statement)).scalar_one_or_none()
    return position


async def stored_request(reader: Reader, key: RunKey) -> StoredDocument | None:
    """The run's request; None if there is none any more, which only a run that has ended can have."""
    # As text: large JSON is parsed in a thread, not on the event loop.
    statement = select(cast(runs.c.request, Text).label("text"), runs.c.objects).where(_is(key))
    row = (await reader.execute(statement)).one_or_none()
    if row is None or row.text is None:
        return None
    return StoredDocument(key.account_id, row.text, frozenset(row.objects or ()))


RUN_COLUMNS = (
    runs.c.account_id,
    runs.c.run_id,
    runs.c.api_key_id,
    runs.c.graph_id,
    runs.c.model,
    runs.c.status,
    runs.c.attempt,
    runs.c.request_hash,
    runs.c.request_id,
    runs.c.state_key,
    runs.c.turn,
    runs.c.interruption,
    runs.c.created_at,
    runs.c.started_at,
    runs.c.ended_at,
    runs.c.final,
    runs.c.meters,
    runs.c.cost_comparison,
    runs.c.tool_failures,
    runs.c.contents_deleted_at,
    runs.c.events_deleted_at,
    runs.c.process_id,
    runs.c.priority,
    runs.c.start_after,
    runs.c.queued_position,
    runs.c.stops_unread,
    runs.c.traceparent,
    runs.c.tracestate,
    runs.c.session_id,
    runs.c.message_id,
    runs.c.shown_answer,
    runs.c.skills,
    runs.c.parked_s,
    runs.c.parked.is_not(None).label("is_parked"),
    runs.c.end_user,
    runs.c.tags,
    runs.c.metadata,
    runs.c.feedback,
)


_EVENT_COLUMNS = (
    run_events.c.position,
    run_events.c.last_position,
    run_events.c.data,
    run_events.c.at,
    run_events.c.gaps,
)


def _latest(events: Sequence[StoredEvents]) -> int:
    """The time of the last event that has one."""
    last = next((stored for stored in reversed(events) if stored.at > 0), None)
    return 0 if last is None else decode_gaps(last.at, last.gaps or b"")[-1]


def _never_called(report: MeterReport | None) -> bool | None:
    """Whether the run has never called a model; None: if it has never started."""
    return None if report is None else report.meters.sdk == report.meters.gateway == 0


def _dumped_cost(report: MeterReport) -> str | None:
    cost = report.meters.cost
    return None if cost is None else dump_json(_COSTS.dump_python(cost, mode="json"))


def _key(key: RunKey) -> dict[str, Any]:
    return {"account_id": key.account_id, "run_id": key.run_id}


def _is(key: RunKey) -> Any:
    return and_(runs.c.account_id == key.account_id, runs.c.run_id == key.run_id)


def _counts(meters: Meters) -> dict[str, int]:
    """Without the costs, which have a column of their own: older servers do not know them."""
    return {"sdk": meters.sdk, "gateway": meters.gateway, "drift": meters.drift}


def run_of(row: Any) -> RunRecord:
    return record_of(row._asdict())


def record_of(columns: dict[str, Any]) -> RunRecord:
    key = RunKey(AccountId(columns.pop("account_id")), RunId(columns.pop("run_id")))
    final = columns.pop("final")
    columns["final"] = None if final is None else GraphFinal.model_validate(final, extra="ignore")
    meters, cost = columns.pop("meters"), _COSTS.validate_python(columns.pop("cost_comparison"))
    columns["meters"] = None if meters is None else Meters(**meters, cost=cost)
    caller, state = columns.pop("traceparent"), columns.pop("tracestate")
    columns["stops_unread"] = bool(columns["stops_unread"])
    shown = columns.pop("shown_answer")
    columns["shown_answer"] = None if shown is None else ShownAnswer(**shown)
    columns["feedback"] = feedback_of(columns["feedback"])
    columns["caller_trace"] = None if caller is None else CallerTrace(caller, state)
    labels = RunLabels(*(columns.pop(name) for name in ("end_user", "tags", "metadata")))
    return RunRecord(key=key, labels=labels, **columns)


# Built once: SQLAlchemy needs more time to build one of these than the database to execute it.
_IS_KEY = and_(runs.c.account_id == bindparam("account_id"), runs.c.run_id == bindparam("run_id"))
_FIND = select(*RUN_COLUMNS).where(_IS_KEY)
_UNFINISHED_TURNS = (
    select(runs.c.run_id)
    .where(
        runs.c.account_id == bindparam("account_id"),
        runs.c.state_key == bindparam("state_key"),
        runs.c.status.in_(UNFINISHED),
        runs.c.turn < bindparam("before"),
    )
    .order_by(runs.c.turn)
)
_ENDED = text(
    """
    SELECT account_id, run_id FROM runs
      JOIN unnest(CAST(:accounts AS uuid[]), CAST(:ids AS text[])) AS given (account_id, run_id)
     USING (account_id, run_id)
     WHERE ended_at IS NOT NULL
    """
)

STORE_EVENTS = f"""
        INSERT INTO run_events (account_id, run_id, position, last_position, data, at, gaps)
        SELECT account_id, run_id, position, last_position, CAST(data AS json),
               CASE new.at WHEN 0 THEN NULL
                           WHEN {AT_END} THEN ended_at
                           ELSE to_timestamp(new.at / 1000.0) END,
               gaps
          FROM ended, unnest(CAST(:positions AS int[]), CAST(:last_positions AS int[]), CAST(:data AS text[]),
                             CAST(:times AS bigint[]), CAST(:gaps AS bytea[]))
               AS new (position, last_position, data, at, gaps)
"""  # noqa: S608 - a constant
"""Stores events of the run that a statement has changed, and returned as `ended` with the time of its end."""

STORE_REPORT = """
               meters = coalesce(CAST(:meters AS json), meters),
               cost_comparison = coalesce(CAST(:cost_comparison AS json), cost_comparison),
               tool_failures = coalesce(CAST(:tool_failures AS int), tool_failures)
"""
"""What was measured until now: an attempt that measures nothing leaves what it was parked with."""

ENDED = f"""
    WITH ended AS (
        UPDATE runs
           SET status = :status, {STORE_REPORT},
               skills = CAST(:skills AS json), parked = NULL,
               final = CAST(:final AS json), held_for = NULL,
               -- The process's clock may be ahead of this one: no event is later than the run's end.
               ended_at = greatest(clock_timestamp(), to_timestamp(CAST(:latest AS bigint) / 1000.0)),
               -- A run that called no model costs nothing, so its request is not stored for it; but in a
               -- conversation the next one may have to pass its message on.
               request = CASE WHEN state_key IS NULL AND coalesce(:never_called, started_at IS NULL)
                              THEN NULL ELSE request END
         WHERE account_id = :account_id AND run_id = :run_id AND attempt = :attempt
           AND status IN ('queued', 'running', 'waiting')
        RETURNING account_id, run_id, state_key, ended_at
    ), closed AS (
        UPDATE run_waits SET resolved_by = 'run_stopped', resolved_at = now() FROM ended
         WHERE run_waits.account_id = ended.account_id AND run_waits.run_id = ended.run_id
           AND resolved_by IS NULL
    ), stored AS ({STORE_EVENTS})
"""  # noqa: S608 - a constant
"""The beginning of statements that end a run."""

_FINISH = text(f"{ENDED} SELECT ended_at FROM ended")  # noqa: S608 - a constant
