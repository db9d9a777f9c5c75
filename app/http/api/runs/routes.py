"""Runs: start, follow, look up, and their receipts."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response
from sse_starlette import EventSourceResponse

from app.billing.receipts.records import RunTotals
from app.billing.reports.service import BillingReports
from app.bootstrap.services import Services
from app.http.admission.checks import CheckedRoute, large_body
from app.http.api.receipts.schemas import ReceiptResponse
from app.http.api.runs.preview_schemas import PreviewResponse
from app.http.api.runs.schemas import AcceptedRunResponse, EvidenceResponse, RunResponse
from app.http.dependencies import (
    Auditor,
    KeyedPosting,
    Location,
    ReceiptReader,
    RequestId,
    RunIdParam,
    RunReader,
    RunStreamsDep,
    ServicesDep,
    Writer,
    run_key,
    visible_run,
)
from app.http.native.encoder import NativeEncoder
from app.http.native.openapi import NOTHING_MORE, STREAM
from app.http.openapi.headers import ACCEPTED, STARTED
from app.http.parameters import LabelParams, MomentParam, PageParams, StorableText
from app.http.reached_budgets import name_reached
from app.http.response_model import Page
from app.http.streaming.sse import LastEventId
from app.platform.db import Database
from app.platform.pagination import MAX_PAGE
from app.requests.outcome import GraphFinal, RunStatus
from app.requests.principal import Principal
from app.requests.run_request import GraphRunRequest
from app.runs.records import RunFilter, RunRecord
from app.runs.requests.posted import Posting

router = APIRouter(route_class=CheckedRoute, prefix="/v1/runs", tags=["runs"])

MAX_POSITION = 2**31 - 1


@router.post("", status_code=202, responses={202: ACCEPTED}, dependencies=[large_body], summary="Start a run")
async def start_run(
    body: GraphRunRequest,
    services: ServicesDep,
    caller: Writer,
    posting: KeyedPosting,
    response: Response,
    location: Location,
) -> AcceptedRunResponse:
    """Start a run in the background, or join the existing run with its id."""
    run = await _start(services, caller, body, posting)
    response.headers["Location"] = location(f"/v1/runs/{run.key.run_id}")
    name_reached(response, run)
    return AcceptedRunResponse(run_id=run.key.run_id, status=run.status)


@router.post(
    "/stream",
    dependencies=[large_body],
    response_class=EventSourceResponse,
    responses={200: STREAM[200] | STARTED},
    summary="Start a run and stream its events",
)
async def stream_run(
    body: GraphRunRequest,
    services: ServicesDep,
    caller: Writer,
    posting: KeyedPosting,
    last_event_id: LastEventId,
    streams: RunStreamsDep,
) -> EventSourceResponse:
    """Stream the run's events from the first to `done`.

    Disconnecting does not stop the run, unless `onDisconnect` is `cancel`. A request that is repeated with
    its `runId` or `Idempotency-Key` continues after `Last-Event-ID`.
    """
    run = await _start(services, caller, body, posting)
    # Without either it is another run, whose events the client has not received.
    is_repeatable = body.run_id is not None or posting.get("idempotency_key") is not None
    after = (last_event_id or 0) if is_repeatable else 0
    stream = streams.events(caller, run.key, NativeEncoder(), after=after, stops_unread=run.stops_unread)
    name_reached(stream, run)
    return stream


@router.post(
    "/wait", responses={200: STARTED}, dependencies=[large_body], summary="Start a run and wait for its end"
)
async def wait_for_run(
    body: GraphRunRequest,
    services: ServicesDep,
    caller: Writer,
    posting: KeyedPosting,
    streams: RunStreamsDep,
    response: Response,
) -> GraphFinal:
    """Respond when the run has ended.

    Disconnecting does not stop the run, unless `onDisconnect` is `cancel`.
    """
    run = await _start(services, caller, body, posting)
    name_reached(response, run)
    wait = partial(services.runs.wait, run.key)
    return await streams.result(caller, run.key, wait, stops_unread=run.stops_unread)


@router.post("/preview", dependencies=[large_body], summary="Preview a run")
async def preview_run(
    body: GraphRunRequest, services: ServicesDep, caller: Writer, request_id: RequestId
) -> PreviewResponse:
    """Plan a run without executing or charging it."""
    plan, preview = await services.previewer.preview(caller, body, request_id=request_id)
    return PreviewResponse.of(plan, preview, await services.forecasts.of(caller, body.graph_id))


async def _chosen(
    status: RunStatus | None = None,
    graph_id: Annotated[StorableText | None, Query(alias="graphId")] = None,
    model: Annotated[StorableText | None, Query(description="As runs show it.")] = None,
    api_key_id: Annotated[UUID | None, Query(alias="apiKeyId")] = None,
    state_key: Annotated[StorableText | None, Query(alias="stateKey")] = None,
    accepted_from: Annotated[MomentParam | None, Query(alias="from")] = None,
    accepted_to: Annotated[MomentParam | None, Query(alias="to", description="Exclusive.")] = None,
    *,
    labels: LabelParams,
) -> RunFilter:
    return RunFilter(status, graph_id, model, api_key_id, state_key, accepted_from, accepted_to, labels)


@router.get("", summary="List runs")
async def list_runs(
    services: ServicesDep,
    caller: RunReader,
    page: PageParams,
    chosen: Annotated[RunFilter, Depends(_chosen)],
) -> Page[RunResponse]:
    """Runs of the key's account, newest first."""

    async def shown(database: Database) -> tuple[list[RunResponse], str | None]:
        runs, cursor = await services.runs.list_runs(caller.account_id, page, chosen, database=database)
        return await _run_responses(services, caller, runs, database), cursor

    (items, next_cursor), as_of = await services.reading.read(shown)
    return Page(items=items, next_cursor=next_cursor, as_of=as_of)


@router.get("/{runId}", summary="Look up a run")
async def get_run(run_id: RunIdParam, services: ServicesDep, caller: RunReader) -> RunResponse:
    """The current state of a run."""
    run = await services.runs.get(run_key(caller, run_id))
    (shown,) = await _run_responses(services, caller, [run], services.database)
    return shown


@router.get(
    "/{runId}/request",
    response_class=Response,
    responses={
        200: {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/GraphRunRequest"}}}}
    },
    summary="Look up a run's request",
)
async def run_request(run_id: RunIdParam, services: ServicesDep, caller: RunReader) -> Response:
    """The request that has started a run, without its files, and without `metadata`, which the run has.

    Posted again without `runId`, it starts another run.
    """
    return Response(await services.runs.request_of(run_key(caller, run_id)), media_type="application/json")


@router.delete("/{runId}", status_code=204, summary="Delete a run's contents")
async def delete_run(run_id: RunIdParam, services: ServicesDep, caller: Writer) -> None:
    """Delete request, answer, events and files of a run that has ended. The run and its receipts stay.

    A run that another key has started needs `runs:read` as well.
    """
    run = await visible_run(services, caller, run_id)
    await services.contents.delete(run.key)


@router.get(
    "/{runId}/events",
    response_class=EventSourceResponse,
    responses=STREAM | NOTHING_MORE,
    summary="Follow a run's events",
)
async def follow_run(
    run_id: RunIdParam,
    services: ServicesDep,
    caller: RunReader,
    last_event_id: LastEventId,
    streams: RunStreamsDep,
    after: Annotated[int, Query(ge=0, le=MAX_POSITION)] = 0,
) -> Response:
    """Stream a run's events after a position; may be repeated.

    An `EventSource` reconnects when a stream ends, with the id of `done`, and stops at the 204 it then gets.
    """
    run = await services.runs.get_with_contents(run_key(caller, run_id))
    if last_event_id is not None and await services.runs.has_end_before(run, last_event_id):
        return Response(status_code=204)
    position = after if last_event_id is None else last_event_id
    return streams.events(caller, run.key, NativeEncoder(), after=position, stops_unread=run.stops_unread)


@router.get("/{runId}/evidence", summary="What a run did, for operators")
async def run_evidence(
    run_id: RunIdParam,
    services: ServicesDep,
    caller: Auditor,
    cursor: Annotated[int, Query(ge=0, le=MAX_POSITION)] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
) -> Page[EvidenceResponse]:
    """Prompts as the model got them, announced capabilities and decisions about tool calls, oldest first.

    Unlike events it has whole arguments and results of tools, and the graph's prompt.
    """
    found = await services.runs.evidence(run_key(caller, run_id), after=cursor, limit=limit)
    more = str(found[-1].position) if len(found) == limit else None
    return Page(items=[EvidenceResponse.model_validate(each) for each in found], next_cursor=more)


@router.get("/{runId}/receipts", summary="A run's receipts")
async def run_receipts(
    run_id: RunIdParam,
    services: ServicesDep,
    caller: ReceiptReader,
) -> Page[ReceiptResponse]:
    """A run's receipts, oldest first, all on one page."""
    run = await services.runs.get(run_key(caller, run_id))
    receipts = await services.billing.of_run(run.key)
    return Page(items=[ReceiptResponse.model_validate(receipt) for receipt in receipts])


async def _start(services: Services, caller: Principal, body: GraphRunRequest, posting: Posting) -> RunRecord:
    run = await services.runs.start(caller, body, **posting)
    await services.readers.cancel_left_before(run)
    return run


async def _run_responses(
    services: Services,
    caller: Principal,
    runs: Sequence[RunRecord],
    database: Database,
) -> list[RunResponse]:
    ids = [run.key.run_id for run in runs]
    traffic = await services.workspaces.traffic(caller.account_id, ids, database=database)
    totals: Mapping[str, RunTotals] = {}
    if caller.may("receipts:read"):
        totals = await BillingReports(database).totals(caller.account_id, ids)
    return [RunResponse.of(run, totals.get(run.key.run_id), traffic[run.key.run_id]) for run in runs]
