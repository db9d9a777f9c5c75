"""Routes of deployments, which are schedules."""

import re
from datetime import UTC, datetime
from typing import Annotated, Final, TypeAlias

from fastapi import APIRouter, Depends, Path, Query

from app.errors import Invalid
from app.http.admission.checks import CheckedRoute, small_body
from app.http.anthropic.openapi import ERROR_RESPONSES
from app.http.dependencies import FingerprintedPosting, IdempotencyKey, RunReader, ServicesDep, Writer
from app.http.managed_agents.deployments.input import ChangedDeployment, NewDeployment, naming_their_fields
from app.http.managed_agents.deployments.schemas import RUN_PREFIX, ManagedDeployment, ManagedDeploymentRun
from app.http.managed_agents.errors import PATH
from app.http.managed_agents.routes import MOST
from app.http.managed_agents.schemas import ManagedPage
from app.http.parameters import StorableText
from app.ids import RUN_ID_PATTERN
from app.platform.pagination import PageRequest
from app.schedules.deployments.records import DeploymentRunFilter
from app.schedules.deployments.service import DeploymentRunNotFound, Deployments
from app.schedules.records import Schedule
from app.schedules.service import ScheduleNotFound

_DEFAULT: Final = 20
_MOST_RUNS: Final = 1000

router = APIRouter(
    route_class=CheckedRoute,
    prefix=f"{PATH}/deployments",
    tags=["managed-agents"],
    responses=ERROR_RESPONSES,
)
runs_router = APIRouter(
    route_class=CheckedRoute,
    prefix=f"{PATH}/deployment_runs",
    tags=["managed-agents"],
    responses=ERROR_RESPONSES,
)


async def _run_id(deployment_run_id: Annotated[str, Path(alias="deploymentRunId")]) -> str:
    run_id = deployment_run_id.removeprefix(RUN_PREFIX)
    if run_id == deployment_run_id or not re.fullmatch(RUN_ID_PATTERN, run_id):
        raise DeploymentRunNotFound
    return run_id


async def _deployments(services: ServicesDep) -> Deployments:
    return Deployments(services.schedules)


DeploymentsDep: TypeAlias = Annotated[Deployments, Depends(_deployments)]
DeploymentId: TypeAlias = Annotated[str, Path(alias="deploymentId", pattern=RUN_ID_PATTERN)]
NextPage: TypeAlias = Annotated[str | None, Query(description="The `next_page` of the page before.")]


@router.post("", dependencies=[small_body], summary="Create a deployment")
async def create_managed_deployment(
    body: NewDeployment, deployments: DeploymentsDep, caller: Writer, posting: FingerprintedPosting
) -> ManagedDeployment:
    """A schedule whose runs each begin a session, with the caller's key."""
    with naming_their_fields():
        return _shown(await deployments.create(caller, body.order, **posting))


@router.get("", summary="List deployments")
async def list_managed_deployments(
    deployments: DeploymentsDep,
    caller: RunReader,
    agent_id: StorableText | None = None,
    limit: Annotated[int, Query(ge=1, le=MOST)] = _DEFAULT,
    page: NextPage = None,
    *,
    include_archived: bool = False,
) -> ManagedPage[ManagedDeployment]:
    """Those of the key's account, newest first."""
    found, cursor = await deployments.page(
        caller, _page_of(limit, page), graph_id=agent_id, has_archived=include_archived
    )
    return ManagedPage(data=[_shown(each) for each in found], next_page=cursor)


@router.get("/{deploymentId}", summary="Read a deployment")
async def get_managed_deployment(
    deployment_id: DeploymentId, deployments: DeploymentsDep, caller: RunReader
) -> ManagedDeployment:
    """With its next due times."""
    return _shown(await deployments.schedules.get(caller, deployment_id))


@router.post("/{deploymentId}", dependencies=[small_body], summary="Change a deployment")
async def change_managed_deployment(
    deployment_id: DeploymentId, body: ChangedDeployment, deployments: DeploymentsDep, caller: Writer
) -> ManagedDeployment:
    """For its next sessions; what is left out stays."""
    with naming_their_fields():
        return _shown(await deployments.change(caller, deployment_id, body.applied_to))


@router.post("/{deploymentId}/pause", summary="Pause a deployment")
async def pause_managed_deployment(
    deployment_id: DeploymentId, deployments: DeploymentsDep, caller: Writer
) -> ManagedDeployment:
    """Begin no session at its due times. Sessions that have begun go on."""
    return _shown(await deployments.after(deployments.schedules.pause, caller, deployment_id))


@router.post("/{deploymentId}/unpause", summary="Unpause a deployment")
async def unpause_managed_deployment(
    deployment_id: DeploymentId, deployments: DeploymentsDep, caller: Writer
) -> ManagedDeployment:
    """Go on with the next due time. If its key was revoked, it uses the caller's key from now on."""
    return _shown(await deployments.after(deployments.schedules.resume, caller, deployment_id))


@router.post("/{deploymentId}/archive", summary="Archive a deployment")
async def archive_managed_deployment(
    deployment_id: DeploymentId, deployments: DeploymentsDep, caller: Writer
) -> ManagedDeployment:
    """For good: it begins no session any more, and is listed with `include_archived` only."""
    return _shown(await deployments.after(deployments.schedules.archive, caller, deployment_id))


@router.post("/{deploymentId}/run", summary="Begin a session of a deployment now")
async def run_managed_deployment(
    deployment_id: DeploymentId, deployments: DeploymentsDep, caller: Writer, key: IdempotencyKey
) -> ManagedDeploymentRun:
    """As if it were due, also while it is paused."""
    return ManagedDeploymentRun.of(await deployments.run(caller, deployment_id, key))


@runs_router.get("", summary="List the runs of deployments")
async def list_managed_deployment_runs(
    deployments: DeploymentsDep,
    caller: RunReader,
    deployment_id: StorableText | None = None,
    limit: Annotated[int, Query(ge=1, le=_MOST_RUNS)] = _DEFAULT,
    page: NextPage = None,
    *,
    has_error: bool | None = None,
) -> ManagedPage[ManagedDeploymentRun]:
    """Due times that are decided, newest first: the latest 1000 of each deployment, of the last 90 days."""
    chosen = DeploymentRunFilter(deployment_id=deployment_id, has_error=has_error)
    found, cursor = await deployments.runs(caller, chosen, _page_of(limit, page))
    return ManagedPage(data=[ManagedDeploymentRun.of(each) for each in found], next_page=cursor)


@runs_router.get("/{deploymentRunId}", summary="Read a run of a deployment")
async def get_managed_deployment_run(
    run_id: Annotated[str, Depends(_run_id)], deployments: DeploymentsDep, caller: RunReader
) -> ManagedDeploymentRun:
    """A due time: either a session or an error."""
    return ManagedDeploymentRun.of(await deployments.find_run(caller, run_id))


def _shown(schedule: Schedule) -> ManagedDeployment:
    if schedule.deployment is None:
        raise ScheduleNotFound
    return ManagedDeployment.of(schedule, schedule.deployment, datetime.now(UTC))


def _page_of(limit: int, page: str | None) -> PageRequest:
    try:
        return PageRequest.of(limit, page)
    except Invalid as error:
        raise Invalid.field("page", "is not a page of this list") from error
