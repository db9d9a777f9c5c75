"""SQL for deployments and what became of their due times."""

from dataclasses import fields

from sqlalchemy import ColumnElement, and_, func, select

from app.ids import AccountId
from app.platform.db import Reader, json_text, page_of
from app.platform.pagination import PageRequest
from app.runs.tables import runs
from app.schedules.deployments.records import DeploymentRun, DeploymentRunFilter
from app.schedules.records import Schedule, ScheduledRun
from app.schedules.repository import newest_schedules
from app.schedules.tables import schedule_runs, schedules


async def newest_deployments(
    reader: Reader, account_id: AccountId, page: PageRequest, *, graph_id: str | None, has_archived: bool
) -> list[Schedule]:
    conditions: list[ColumnElement[bool]] = [schedules.c.deployment.is_not(None)]
    if graph_id is not None:
        conditions.append(schedules.c.graph_id == graph_id)
    if not has_archived:
        conditions.append(json_text(schedules.c.deployment, "archivedAt").is_(None))
    return await newest_schedules(reader, account_id, page, *conditions)


async def newest_deployment_runs(
    reader: Reader, account_id: AccountId, chosen: DeploymentRunFilter, page: PageRequest
) -> list[DeploymentRun]:
    """A page of the chosen due times that are decided, newest first."""
    due = schedule_runs.c
    conditions = [schedules.c.account_id == account_id, schedules.c.deployment.is_not(None)]
    if chosen.deployment_id is not None:
        conditions.append(schedules.c.schedule_id == chosen.deployment_id)
    if chosen.run_id is not None:
        conditions.append(due.run_id == chosen.run_id)
    if chosen.has_error is not None:
        conditions.append((due.outcome != "started") == chosen.has_error)
    names = [field.name for field in fields(ScheduledRun)]
    graph_id = func.coalesce(runs.c.graph_id, schedules.c.graph_id).label("graph_id")
    statement = (
        select(*(due[name] for name in names), schedules.c.schedule_id, graph_id)
        .join(schedules, schedules.c.id == due.schedule)
        .outerjoin(runs, and_(runs.c.account_id == schedules.c.account_id, runs.c.run_id == due.run_id))
        .where(due.outcome.not_in(("starting", "waiting")), *conditions)
    )
    found = (await reader.execute(page_of(statement, page, at=due.due_at, id_=due.run_id))).mappings()
    return [
        DeploymentRun(
            ScheduledRun(**{name: row[name] for name in names}), row["schedule_id"], row["graph_id"]
        )
        for row in found
    ]
