"""Runs: start, follow, look up, and what they were charged."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from sse_starlette import EventSourceResponse

from app.bootstrap.services import Services
from app.http.admission.checks import AdmittedRoute, large_body
from app.http.dependencies import (
    HeartbeatS,
    IdempotencyKey,
    LastEventId,
    Reading,
    ReceiptReader,
    RequestId,
    RunIdParam,
    RunReader,
    ServicesDep,
    Writer,
    run_key,
)
from app.http.disconnect import while_connected
from app.http.native.encoder import NativeEncoder
from app.http.openapi import STREAM
from app.http.schemas import AcceptedRun, Page, PreviewResponse, ReceiptResponse, RunResponse
from app.http.sse import event_stream
from app.pagination import MAX_PAGE
from app.principal import Principal
from app.requests import GraphFinal, GraphRunRequest
from app.runs.repository import RunRecord

router = APIRouter(route_class=AdmittedRoute, prefix="/v1/runs", tags=["runs"])

MAX_POSITION = 2**31 - 1


@router.post("", status_code=202, dependencies=[large_body], summary="Start a run")
async def start_run(
    body: GraphRunRequest,
    services: ServicesDep,
    caller: Writer,
    request_id: RequestId,
    key: IdempotencyKey,
    response: Response,
) -> AcceptedRun:
    """Start a run that goes on in the background, or join the one that has its id."""
    run = await _start(services, caller, body, request_id, key)
    response.headers["Location"] = f"/v1/runs/{run.key.run_id}"
    return AcceptedRun(run_id=run.key.run_id, status=run.status)


@router.post(
    "/stream",
    dependencies=[large_body],
    response_class=EventSourceResponse,
    responses=STREAM,
    summary="Start a run and stream its events",
)
async def stream_run(
    body: GraphRunRequest,
    services: ServicesDep,
    caller: Writer,
    request_id: RequestId,
    key: IdempotencyKey,
    heartbeat_s: HeartbeatS,
    reading: Reading,
) -> EventSourceResponse:
    """Stream the run's events from the first to `done`. Leaving does not stop the run."""
    run = await _start(services, caller, body, request_id, key)
    return event_stream(
        services.runs.follow(run.key),
        NativeEncoder(),
        heartbeat_s=heartbeat_s,
        within=reading(caller, run.key),
    )


@router.post("/wait", dependencies=[large_body], summary="Start a run and wait for its end")
async def wait_for_run(
    body: GraphRunRequest,
    services: ServicesDep,
    caller: Writer,
    request_id: RequestId,
    key: IdempotencyKey,
    *,
    reading: Reading,
    request: Request,
) -> GraphFinal:
    """Answer when the run has ended. Leaving does not stop the run."""
    run = await _start(services, caller, body, request_id, key)
    with reading(caller, run.key):
        return await while_connected(request, services.runs.wait(run.key))


@router.post("/preview", dependencies=[large_body], summary="Preview a run")
async def preview_run(
    body: GraphRunRequest, services: ServicesDep, caller: Writer, request_id: RequestId
) -> PreviewResponse:
    """What would be executed. Nothing is: no run, no charge."""
    context, preview = await services.previewer.preview(caller, body, request_id=request_id)
    return PreviewResponse.of(context, preview)


@router.get("", summary="List runs")
async def list_runs(
    services: ServicesDep,
    caller: RunReader,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
    cursor: str | None = None,
) -> Page[RunResponse]:
    """Runs of the key's account, newest first."""
    runs, next_cursor = await services.runs.list_runs(caller.account_id, limit=limit, cursor=cursor)
    return Page(items=await _shown(services, caller, runs), next_cursor=next_cursor)


@router.get("/{runId}", summary="Look up a run")
async def get_run(run_id: RunIdParam, services: ServicesDep, caller: RunReader) -> RunResponse:
    """The run as it stands."""
    run = await services.runs.get(run_key(caller, run_id))
    (shown,) = await _shown(services, caller, [run])
    return shown


@router.delete("/{runId}", status_code=204, summary="Delete what a run holds")
async def delete_run(run_id: RunIdParam, services: ServicesDep, caller: Writer) -> None:
    """Remove request, answer, events and files of a run that has ended. The run and its receipts stay.

    What another key has started needs `runs:read` as well: it is gone for good.
    """
    run = await services.runs.get(run_key(caller, run_id))
    caller.require_reading(run.api_key_id)
    await services.contents.delete(run.key)


@router.get(
    "/{runId}/events",
    response_class=EventSourceResponse,
    responses=STREAM,
    summary="Follow a run's events",
)
async def follow_run(
    run_id: RunIdParam,
    services: ServicesDep,
    caller: RunReader,
    last_event_id: LastEventId,
    heartbeat_s: HeartbeatS,
    reading: Reading,
    after: Annotated[int, Query(ge=0, le=MAX_POSITION)] = 0,
) -> EventSourceResponse:
    """Stream a run's events after a position, from anywhere, as often as wanted."""
    run = await services.runs.get_with_contents(run_key(caller, run_id))
    position = after if last_event_id is None else last_event_id
    batches = services.runs.follow(run.key, after=position)
    return event_stream(
        batches,
        NativeEncoder(),
        heartbeat_s=heartbeat_s,
        within=reading(caller, run.key),
    )


@router.get("/{runId}/receipts", summary="A run's receipts")
async def run_receipts(
    run_id: RunIdParam,
    services: ServicesDep,
    caller: ReceiptReader,
) -> Page[ReceiptResponse]:
    """A run's receipts, oldest first, all on one page."""
    run = await services.runs.get(run_key(caller, run_id))
    receipts = await services.billing.of_run(run.key)
    return Page(items=[ReceiptResponse.of(receipt) for receipt in receipts])


async def _start(
    services: Services,
    caller: Principal,
    body: GraphRunRequest,
    request_id: str,
    idempotency_key: str | None,
) -> RunRecord:
    return await services.runs.start(
        caller,
        body,
        request_id=request_id,
        idempotency_key=idempotency_key,
    )


async def _shown(
    services: Services,
    caller: Principal,
    runs: Sequence[RunRecord],
) -> list[RunResponse]:
    if not caller.may("receipts:read"):
        return [RunResponse.of(run, None) for run in runs]
    ids = [run.key.run_id for run in runs]
    totals = await services.billing.totals(caller.account_id, ids)
    return [RunResponse.of(run, totals[run.key.run_id]) for run in runs]
