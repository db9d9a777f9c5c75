"""SQL for deployments and what became of their due times."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, Text, and_, cast, func, select

from app.ids import AccountId
from app.platform.db import Reader, json_text, page_of
from app.platform.pagination import PageRequest
from app.runs.managed.records import COMPARISONS, Comparison
from app.runs.tables import runs
from app.schedules.records import Schedule, ScheduledRun, Trigger
from app.schedules.repository import SCHEDULE_COLUMNS, schedule_of
from app.schedules.tables import schedule_runs, schedules

_DUE: Final = [schedule_runs.c[field.name] for field in fields(ScheduledRun)]
_GRAPH: Final = func.coalesce(runs.c.graph_id, schedules.c.graph_id).label("graph_id")
_REQUEST: Final = cast(schedules.c.request, Text).label("request_text")
_IS_DEPLOYMENT: Final = schedules.c.deployment.is_not(None)


@dataclass(frozen=True, slots=True)
class DeploymentFilter:
    """Which deployments of an account are listed; None means all."""

    graph_id: str | None = None
    is_paused: bool | None = None
    has_archived: bool = False
    created: Sequence[tuple[Comparison, datetime]] = ()


@dataclass(frozen=True, slots=True)
class DeploymentRunFilter:
    """Which due times of an account's deployments are listed; None means all."""

    deployment_id: str | None = None
    run_id: str | None = None
    trigger: Trigger | None = None
    has_error: bool | None = None
    created: Sequence[tuple[Comparison, datetime]] = ()


@dataclass(frozen=True, slots=True)
class DeploymentRun:
    """A due time of a deployment that is decided."""

    due: ScheduledRun
    deployment_id: str
    graph_id: str
    """That of its run; without one, that of the deployment now."""


async def find_deployment(
    reader: Reader, account_id: AccountId, deployment_id: str
) -> tuple[Schedule, str] | None:
    """A deployment with the request of its runs as JSON."""
    found = await _deployments(reader, _of(account_id).where(schedules.c.schedule_id == deployment_id))
    return found[0] if found else None


async def newest_deployments(
    reader: Reader, account_id: AccountId, chosen: DeploymentFilter, page: PageRequest
) -> list[tuple[Schedule, str]]:
    """A page of the chosen deployments, newest first, with the requests of their runs as JSON."""
    conditions = _compared(schedules.c.created_at, chosen.created)
    if chosen.graph_id is not None:
        conditions.append(schedules.c.graph_id == chosen.graph_id)
    if not chosen.has_archived:
        conditions.append(json_text(schedules.c.deployment, "archivedAt").is_(None))
    if chosen.is_paused is not None:
        conditions.append(schedules.c.paused_reason.is_not(None) == chosen.is_paused)
    statement = _of(account_id).where(*conditions)
    ordered = page_of(statement, page, at=schedules.c.created_at, id_=schedules.c.schedule_id)
    return await _deployments(reader, ordered)


async def newest_deployment_runs(
    reader: Reader, account_id: AccountId, chosen: DeploymentRunFilter, page: PageRequest
) -> list[DeploymentRun]:
    """A page of the chosen due times that are decided, newest first."""
    due = schedule_runs.c
    conditions = _compared(due.due_at, chosen.created)
    if chosen.deployment_id is not None:
        conditions.append(schedules.c.schedule_id == chosen.deployment_id)
    if chosen.run_id is not None:
        conditions.append(due.run_id == chosen.run_id)
    if chosen.trigger is not None:
        conditions.append(due.trigger == chosen.trigger)
    if chosen.has_error is not None:
        conditions.append((due.outcome != "started") == chosen.has_error)
    statement = (
        select(*_DUE, schedules.c.schedule_id, _GRAPH)
        .join(schedules, schedules.c.id == due.schedule)
        .outerjoin(runs, and_(runs.c.account_id == schedules.c.account_id, runs.c.run_id == due.run_id))
        .where(schedules.c.account_id == account_id, _IS_DEPLOYMENT)
        .where(due.outcome.not_in(("starting", "waiting")), *conditions)
    )
    rows = await reader.execute(page_of(statement, page, at=due.due_at, id_=due.run_id))
    return [_run_of(dict(row)) for row in rows.mappings()]


def _of(account_id: AccountId) -> Select[Any]:
    columns = select(*SCHEDULE_COLUMNS, _REQUEST)
    return columns.where(schedules.c.account_id == account_id, _IS_DEPLOYMENT)


async def _deployments(reader: Reader, statement: Select[Any]) -> list[tuple[Schedule, str]]:
    rows = (await reader.execute(statement)).mappings()
    return [(schedule_of(row), row["request_text"]) for row in rows]


def _compared(
    column: ColumnElement[datetime], times: Sequence[tuple[Comparison, datetime]]
) -> list[ColumnElement[bool]]:
    return [COMPARISONS[comparison](column, moment) for comparison, moment in times]


def _run_of(row: dict[str, Any]) -> DeploymentRun:
    deployment_id, graph_id = row.pop("schedule_id"), row.pop("graph_id")
    return DeploymentRun(ScheduledRun(**row), deployment_id, graph_id)
