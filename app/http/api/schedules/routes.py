"""Schedules of the key's account."""

from typing import Annotated, TypeAlias

from fastapi import APIRouter, Response

from app.http.admission.checks import CheckedRoute, large_body
from app.http.api.schedules.schemas import (
    ScheduleChange,
    ScheduledRunResponse,
    ScheduleRequest,
    ScheduleResponse,
)
from app.http.dependencies import IdempotencyKey, Location, RunReader, ServicesDep, Writer
from app.http.openapi.headers import LOCATED
from app.http.parameters import PageParams, name_in_path
from app.http.response_model import Page
from app.ids import RUN_ID_PATTERN
from app.schedules.service import ScheduleNotFound

router = APIRouter(route_class=CheckedRoute, prefix="/v1/schedules", tags=["schedules"])


ScheduleId: TypeAlias = Annotated[str, name_in_path("scheduleId", RUN_ID_PATTERN, ScheduleNotFound)]


@router.post(
    "", status_code=201, responses={201: LOCATED}, dependencies=[large_body], summary="Create a schedule"
)
async def create_schedule(
    body: ScheduleRequest, services: ServicesDep, caller: Writer, response: Response, location: Location
) -> ScheduleResponse:
    """Start runs with the caller's key at the times of a cron expression.

    The same `scheduleId` with the same body returns the existing schedule.
    """
    schedule = await services.schedules.create(caller, body.order)
    response.headers["Location"] = location(f"/v1/schedules/{schedule.schedule_id}")
    return ScheduleResponse.of(schedule)


@router.get("", summary="List schedules")
async def list_schedules(
    services: ServicesDep,
    caller: RunReader,
    page: PageParams,
) -> Page[ScheduleResponse]:
    """Schedules of the key's account, newest first."""
    return Page.of(await services.schedules.list_schedules(caller, page), ScheduleResponse.of)


@router.get("/{scheduleId}", summary="Look up a schedule")
async def get_schedule(schedule_id: ScheduleId, services: ServicesDep, caller: RunReader) -> ScheduleResponse:
    """A schedule and its next due time."""
    return ScheduleResponse.of(await services.schedules.get(caller, schedule_id))


@router.patch("/{scheduleId}", dependencies=[large_body], summary="Change a schedule")
async def change_schedule(
    schedule_id: ScheduleId, body: ScheduleChange, services: ServicesDep, caller: Writer
) -> ScheduleResponse:
    """Omitted fields stay unchanged; `run` is replaced as a whole.

    A schedule that another key has created needs `runs:read` as well.
    """
    changed = await services.schedules.change(caller, schedule_id, body.applied_to, request=body.run)
    return ScheduleResponse.of(changed)


@router.post("/{scheduleId}/pause", summary="Pause a schedule")
async def pause_schedule(schedule_id: ScheduleId, services: ServicesDep, caller: Writer) -> ScheduleResponse:
    """Start no run at its due times, nor one that waits. Runs that have been started continue."""
    return ScheduleResponse.of(await services.schedules.pause(caller, schedule_id))


@router.post("/{scheduleId}/resume", summary="Resume a schedule")
async def resume_schedule(schedule_id: ScheduleId, services: ServicesDep, caller: Writer) -> ScheduleResponse:
    """Go on with the next due time. If its key was revoked, its runs use the caller's key from now on."""
    return ScheduleResponse.of(await services.schedules.resume(caller, schedule_id))


@router.post("/{scheduleId}/trigger", status_code=202, summary="Start a run of a schedule now")
async def trigger_schedule(
    schedule_id: ScheduleId, services: ServicesDep, caller: Writer, key: IdempotencyKey
) -> ScheduledRunResponse:
    """As if the schedule were due now, also while it is paused. Its overlap policy decides as usual."""
    return ScheduledRunResponse.of(await services.schedules.trigger(caller, schedule_id, key))


@router.delete("/{scheduleId}", status_code=204, summary="Delete a schedule")
async def delete_schedule(schedule_id: ScheduleId, services: ServicesDep, caller: Writer) -> None:
    """Delete a schedule and its history. Its runs stay."""
    await services.schedules.delete(caller, schedule_id)


@router.get("/{scheduleId}/runs", summary="A schedule's history")
async def list_scheduled_runs(
    schedule_id: ScheduleId,
    services: ServicesDep,
    caller: RunReader,
    page: PageParams,
) -> Page[ScheduledRunResponse]:
    """Its due times and what became of each, newest first; the latest 1000 of the last 90 days."""
    return Page.of(await services.schedules.history(caller, schedule_id, page), ScheduledRunResponse.of)
