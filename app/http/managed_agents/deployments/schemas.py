"""JSON of deployments and of what became of their due times, as clients of Managed Agents read it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, Self

from pydantic import BaseModel

from app.http.managed_agents.deployments.input import DeployedAgent
from app.http.managed_agents.input import BudgetLimit
from app.http.response_model import Moment
from app.runs.managed.deployed import session_of
from app.schedules.deployments.records import DeploymentRun
from app.schedules.records import Deployment, Schedule, ScheduledRun

RUN_PREFIX: Final = "drun_"
"""How the ids of the runs of deployments begin; the id of our run follows."""

_UPCOMING: Final = 5
_KINDS: Final = {
    "graph_not_found": "agent_archived_error",
    "account_suspended": "organization_disabled_error",
    "queue_full": "session_rate_limited_error",
    "rate_limit": "session_rate_limited_error",
    "overloaded": "session_rate_limited_error",
}
"""The types of errors that their clients know; all other refusals are `session_creation_rejected_error`."""


class DeploymentSchedule(BaseModel):
    """When sessions begin."""

    type: Literal["cron"] = "cron"
    expression: str
    timezone: str
    last_run_at: Moment | None
    """The latest due time."""
    upcoming_runs_at: Sequence[Moment]

    @classmethod
    def of(cls, schedule: Schedule, now: datetime) -> Self | None:
        """Build from a schedule; None for one that only clients start."""
        timing = schedule.terms.timing
        if not timing.cron:
            return None
        upcoming = [] if schedule.archived_at is not None else timing.upcoming(now, most=_UPCOMING)
        return cls(
            expression=timing.cron,
            timezone=timing.time_zone,
            last_run_at=schedule.last_at,
            upcoming_runs_at=upcoming,
        )


class ManagedDeployment(BaseModel):
    """A schedule whose runs each begin a session."""

    type: Literal["deployment"] = "deployment"
    id: str
    name: str
    description: str | None
    agent: DeployedAgent
    environment_id: Literal["env_default"]
    initial_events: Sequence[Mapping[str, Any]]
    metadata: Mapping[str, str]
    budget: BudgetLimit | None
    schedule: DeploymentSchedule | None
    status: Literal["active", "paused"]
    paused_reason: Mapping[str, Any] | None
    resources: Sequence[Mapping[str, Any]]
    vault_ids: Sequence[str]
    created_at: Moment
    updated_at: Moment
    archived_at: Moment | None

    @classmethod
    def of(cls, schedule: Schedule, deployment: Deployment, now: datetime) -> Self:
        """Build from a schedule and what it has as a deployment."""
        is_paused = schedule.paused and deployment.archived_at is None
        computed = {
            "id": schedule.schedule_id,
            "schedule": DeploymentSchedule.of(schedule, now),
            "status": "paused" if is_paused else "active",
            "paused_reason": _reason_of(schedule) if is_paused else None,
            "resources": (),
            "vault_ids": (),
            "created_at": schedule.created_at,
            "updated_at": max(deployment.updated_at, schedule.paused_at or deployment.updated_at),
            "archived_at": deployment.archived_at,
        }
        return cls.model_validate({**deployment.posted, **computed})


class ManagedDeploymentRun(BaseModel):
    """A due time: either a session or an error."""

    type: Literal["deployment_run"] = "deployment_run"
    id: str
    deployment_id: str
    agent: DeployedAgent
    session_id: str | None
    error: Mapping[str, str] | None
    trigger_context: Mapping[str, Any]
    created_at: Moment

    @classmethod
    def of(cls, run: DeploymentRun) -> Self:
        """Build from what became of a due time."""
        due = run.due
        is_cron = due.trigger == "cron"
        at = due.due_at.isoformat().replace("+00:00", "Z")
        return cls(
            id=f"{RUN_PREFIX}{due.run_id}",
            deployment_id=run.deployment_id,
            agent=DeployedAgent(id=run.graph_id),
            session_id=session_of(due.run_id) if due.outcome == "started" else None,
            error=None if due.outcome == "started" else _error_of(due),
            trigger_context={"type": "schedule", "scheduled_at": at} if is_cron else {"type": "manual"},
            created_at=due.due_at,
        )


def _reason_of(schedule: Schedule) -> Mapping[str, Any]:
    if schedule.paused_reason == "by_request":
        return {"type": "manual"}
    return {"type": "error", "error": {"type": "unknown_error", "message": f"{schedule.paused_reason}"}}


def _error_of(due: ScheduledRun) -> Mapping[str, str]:
    if due.error is None:
        return {"type": "unknown_error", "message": f"No session was created: {due.outcome}."}
    kind = _KINDS.get(due.error, "session_creation_rejected_error")
    return {"type": kind, "message": f"The session was refused: {due.error}."}
