"""SQL for schedules, as their account reads and changes them."""

from collections.abc import Collection, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Text, and_, bindparam, cast, delete, func, select, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import RowMapping

from app.ids import AccountId, ApiKeyId
from app.platform.db import Json, Reader, Transaction, json_text, page_of
from app.platform.pagination import PageRequest
from app.platform.postgres.statements import locked_in_order
from app.schedules.cron import Timing
from app.schedules.records import (
    Deployment,
    NewSchedule,
    PausedReason,
    RequestSummary,
    Schedule,
    ScheduledRun,
    ScheduleTerms,
    StoredRequest,
)
from app.schedules.tables import schedule_runs, schedules

_TIMING = [field.name for field in fields(Timing)]
_SUMMARY = [field.name for field in fields(RequestSummary)]
_PLAIN = [each.name for each in fields(Schedule) if each.name not in {"terms", "summary", "deployment"}]
_OTHERS = [*_TIMING, "overlap", "catch_up_s", *_SUMMARY, "deployment"]
SCHEDULE_COLUMNS = [schedules.c[name] for name in (*_PLAIN, *_OTHERS)]
_DUE = [schedule_runs.c[field.name] for field in fields(ScheduledRun)]
_REQUEST = cast(bindparam("request_text", type_=Text), Json)


async def count_schedules(reader: Reader, account_id: AccountId) -> int:
    statement = select(func.count()).select_from(schedules).where(schedules.c.account_id == account_id)
    return int((await reader.execute(statement)).scalar_one())


async def insert_schedule(tx: Transaction, new: NewSchedule, *, now: datetime) -> Schedule | None:
    """Insert a schedule; None if its id is taken."""
    values = {
        "id": new.id,
        "account_id": new.account_id,
        "schedule_id": new.schedule_id,
        "api_key_id": new.api_key_id,
        "creation_hash": new.creation_hash,
        "paused_reason": "by_request" if new.paused else None,
        "paused_at": now if new.paused else None,
        "next_at": new.next_at,
        "aligned_at": now,
        "created_at": func.now(),
        "request": _REQUEST,
        "deployment": None if new.deployment is None else new.deployment.stored(),
    }
    statement = (
        postgresql.insert(schedules)
        .values(values | columns_of(new.terms) | _columns_of_summary(new.request))
        .on_conflict_do_nothing()
        .returning(*SCHEDULE_COLUMNS)
    )
    row = (await tx.execute(statement, {"request_text": new.request.text})).mappings().one_or_none()
    return None if row is None else schedule_of(row)


async def find_schedule(reader: Reader, account_id: AccountId, schedule_id: str) -> Schedule | None:
    found = await reader.execute(select(*SCHEDULE_COLUMNS).where(_is(account_id, schedule_id)))
    row = found.mappings().one_or_none()
    return None if row is None else schedule_of(row)


async def newest_schedules(
    reader: Reader, account_id: AccountId, page: PageRequest, *having: ColumnElement[bool]
) -> list[Schedule]:
    """A page of an account's schedules (of those with these conditions), newest first."""
    of_account = select(*SCHEDULE_COLUMNS).where(schedules.c.account_id == account_id, *having)
    statement = page_of(of_account, page, at=schedules.c.created_at, id_=schedules.c.schedule_id)
    return [schedule_of(row) for row in (await reader.execute(statement)).mappings()]


async def lock_named(tx: Transaction, account_id: AccountId, schedule_id: str) -> Schedule | None:
    """The account's schedule with this id, locked until the transaction ends."""
    found = await tx.execute(select(*SCHEDULE_COLUMNS).where(_is(account_id, schedule_id)).with_for_update())
    row = found.mappings().one_or_none()
    return None if row is None else schedule_of(row)


async def lock_schedule(tx: Transaction, schedule: UUID, *, skip_locked: bool = False) -> Schedule | None:
    """The same by our own id; None also for one that another transaction has locked, if `skip_locked`."""
    statement = select(*SCHEDULE_COLUMNS).where(schedules.c.id == schedule)
    found = await tx.execute(statement.with_for_update(skip_locked=skip_locked))
    row = found.mappings().one_or_none()
    return None if row is None else schedule_of(row)


async def update_schedule(
    tx: Transaction, schedule: UUID, changed: Mapping[str, Any], *, request: StoredRequest | None = None
) -> Schedule:
    """Change columns of a schedule that is locked, and the request of its runs if there is another one."""
    values, parameters = dict(changed), {}
    if request is not None:
        values |= _columns_of_summary(request) | {"request": _REQUEST}
        parameters["request_text"] = request.text
    statement = (
        update(schedules).where(schedules.c.id == schedule).values(values).returning(*SCHEDULE_COLUMNS)
    )
    return schedule_of((await tx.execute(statement, parameters)).mappings().one())


async def pause_schedule(tx: Transaction, schedule: UUID, reason: PausedReason, *, now: datetime) -> Schedule:
    """Pause a schedule that is locked; none of its due times waits any longer."""
    is_waiting = and_(schedule_runs.c.schedule == schedule, schedule_runs.c.outcome == "waiting")
    await tx.execute(update(schedule_runs).where(is_waiting).values(outcome="missed"))
    values = {"paused_reason": reason, "paused_at": now, "next_at": None, "aligned_at": now}
    return await update_schedule(tx, schedule, values)


async def delete_schedule(tx: Transaction, schedule: UUID) -> None:
    """Delete a schedule and its history."""
    await tx.execute(delete(schedules).where(schedules.c.id == schedule))


async def delete_schedules_for(tx: Transaction, account_id: AccountId, end_user: str) -> None:
    """Delete the schedules whose runs are for an end user, with their history."""
    is_named = json_text(schedules.c.request, "endUser") == end_user
    are_named = locked_in_order(schedules, schedules.c.account_id == account_id, is_named)
    await tx.execute(delete(schedules).where(are_named))


async def requests_for(reader: Reader, account_id: AccountId, end_user: str) -> list[str]:
    is_named = json_text(schedules.c.request, "endUser") == end_user
    statement = select(cast(schedules.c.request, Text)).where(schedules.c.account_id == account_id, is_named)
    return list((await reader.execute(statement.order_by(schedules.c.schedule_id))).scalars())


async def stored_request(reader: Reader, schedule: UUID) -> str | None:
    """The request of a schedule's runs as JSON; None if the schedule is deleted."""
    # As text: large JSON is parsed in a thread, not on the event loop.
    statement = select(cast(schedules.c.request, Text)).where(schedules.c.id == schedule)
    request: str | None = (await reader.execute(statement)).scalar_one_or_none()
    return request


async def keys_in_use(reader: Reader) -> list[ApiKeyId]:
    """The keys of all schedules that are not paused."""
    statement = select(schedules.c.api_key_id).where(schedules.c.paused_reason.is_(None)).distinct()
    return [ApiKeyId(key) for key in (await reader.execute(statement)).scalars()]


async def lock_schedules_of(tx: Transaction, keys: Collection[ApiKeyId]) -> list[UUID]:
    is_active = and_(schedules.c.paused_reason.is_(None), schedules.c.api_key_id.in_(keys))
    found = await tx.execute(select(schedules.c.id).where(is_active).with_for_update(skip_locked=True))
    return list(found.scalars())


async def move_schedules(tx: Transaction, old: ApiKeyId, new: ApiKeyId) -> None:
    """Let the schedules of a key go on with another one."""
    are_moved = locked_in_order(schedules, schedules.c.api_key_id == old)
    await tx.execute(update(schedules).where(are_moved).values(api_key_id=new))


async def due_times(reader: Reader, schedule: UUID, page: PageRequest) -> list[ScheduledRun]:
    """A page of a schedule's due times, newest first."""
    of_schedule = select(*_DUE).where(schedule_runs.c.schedule == schedule)
    statement = page_of(of_schedule, page, at=schedule_runs.c.due_at, id_=schedule_runs.c.run_id)
    return [ScheduledRun(**row) for row in (await reader.execute(statement)).mappings()]


def columns_of(terms: ScheduleTerms) -> dict[str, Any]:
    timing = {name: getattr(terms.timing, name) for name in _TIMING}
    return {**timing, "overlap": terms.overlap, "catch_up_s": terms.catch_up_s}


def schedule_of(row: RowMapping) -> Schedule:
    timing = Timing(**{name: row[name] for name in _TIMING})
    deployment = row["deployment"]
    return Schedule(
        **{name: row[name] for name in _PLAIN},
        terms=ScheduleTerms(timing, row["overlap"], row["catch_up_s"]),
        summary=RequestSummary(**{name: row[name] for name in _SUMMARY}),
        deployment=None if deployment is None else Deployment.model_validate(deployment),
    )


def _columns_of_summary(request: StoredRequest) -> dict[str, Any]:
    return {name: getattr(request.summary, name) for name in _SUMMARY}


def _is(account_id: AccountId, schedule_id: str) -> Any:
    return and_(schedules.c.account_id == account_id, schedules.c.schedule_id == schedule_id)
