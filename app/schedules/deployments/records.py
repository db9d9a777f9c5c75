"""The data of deployments."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.requests.run_request import GraphRunRequest
from app.schedules.cron import Timing
from app.schedules.records import ScheduledRun


@dataclass(frozen=True, slots=True)
class DeploymentOrder:
    """What a client has posted, and what its schedule has of it."""

    posted: Mapping[str, Any]
    timing: Timing
    request: GraphRunRequest


@dataclass(frozen=True, slots=True)
class DeploymentRunFilter:
    """Which due times of an account's deployments are listed; None means all."""

    deployment_id: str | None = None
    run_id: str | None = None
    has_error: bool | None = None


@dataclass(frozen=True, slots=True)
class DeploymentRun:
    """A due time of a deployment that is decided."""

    due: ScheduledRun
    deployment_id: str
    graph_id: str
    """That of its run; without one, that of the deployment now."""
