"""Batches of the key's account."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from decimal import Decimal
from typing import Annotated, Any, Final, TypeAlias
from uuid import UUID

import anyio
from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field, WithJsonSchema
from sse_starlette import EventSourceResponse

from app.bootstrap.services import Services
from app.errors import Invalid
from app.http.admission.checks import JSON_LINES, CheckedRoute, lines_body
from app.http.api.batches.lines import read_lines
from app.http.api.batches.schemas import (
    BatchPreviewResponse,
    BatchResponse,
    BatchResultResponse,
    CreatedBatchResponse,
)
from app.http.dependencies import (
    HeartbeatS,
    IdempotencyKey,
    Location,
    OpenExportReader,
    OpenStreamReader,
    RunReader,
    ServicesDep,
    Writer,
    run_key,
)
from app.http.native.encoder import NativeEncoder
from app.http.openapi.document import json_lines, server_sent
from app.http.openapi.headers import ATTACHED, LOCATED
from app.http.parameters import StorableText, UuidPageParams, uuid_in_path
from app.http.response_model import Page
from app.http.streaming.line_export import LineExport
from app.http.streaming.sse import InterruptibleStream
from app.requests.dollars import ABOVE_ZERO, Dollars
from app.requests.principal import Principal
from app.runs.batches.records import Batch, BatchTerms
from app.runs.batches.service import BatchNotFound, BatchOrder

router = APIRouter(route_class=CheckedRoute, prefix="/v1/batches", tags=["batches"])

_PROGRESS_EVERY_S: Final = 0.5
_EXAMPLE: Final = (
    '{"customId": "1", "request": {"graphId": "claude_agents:assistant", "messages": '
    '[{"role": "user", "content": "What time is it in Tokyo?"}]}}\n'
)
_LINES: Final[dict[str, Any]] = {
    "requestBody": {
        "description": "One `BatchLine` in each line; empty if `fileRunId` and `filePath` name a file.",
        "content": {
            name: content
            for media_type in JSON_LINES
            for name, content in json_lines(media_type, "BatchLine", example=_EXAMPLE).items()
        },
    }
}


BatchId: TypeAlias = Annotated[UUID, uuid_in_path("batchId", BatchNotFound)]


async def _lines(
    request: Request,
    services: ServicesDep,
    caller: Writer,
    file_run_id: Annotated[
        str | None,
        Query(alias="fileRunId", description="A run that has the lines as a file; needs `runs:read`."),
    ] = None,
    file_path: Annotated[
        StorableText | None, Query(alias="filePath", description="A `path` of that run's files.")
    ] = None,
) -> bytes:
    """The lines of the body, or of a file that a run has left in its workspace."""
    body = await request.body()
    if file_run_id is None and file_path is None:
        return body
    if file_run_id is None or file_path is None or body:
        raise Invalid.field("filePath", "needs fileRunId, and an empty body")
    caller.require("runs:read")
    run = await services.runs.get(run_key(caller, file_run_id))
    return await services.workspaces.read(run.key, file_path)


Lines: TypeAlias = Annotated[bytes, Depends(_lines)]
Parallelism: TypeAlias = Annotated[int, Query(ge=1, le=256, description="How many runs at once, at most.")]


MaxUsd: TypeAlias = Annotated[Dollars, Field(gt=0), WithJsonSchema(ABOVE_ZERO)]


@router.post(
    "",
    status_code=202,
    responses={202: LOCATED},
    dependencies=[lines_body],
    openapi_extra=_LINES,
    summary="Start a batch",
)
async def create_batch(
    lines: Lines,
    services: ServicesDep,
    caller: Writer,
    key: IdempotencyKey,
    response: Response,
    location: Location,
    parallelism: Parallelism = 8,
    max_usd: Annotated[
        MaxUsd | None, Query(alias="maxUsd", description="No further item is started beyond these dollars.")
    ] = None,
) -> CreatedBatchResponse:
    """Start a run for each line, in the background; nothing is started unless all lines are valid.

    All lines are requests of one graph. Runs of a batch leave places to other runs of the account.
    """
    terms = BatchTerms(parallelism, max_usd)
    fingerprint = hashlib.sha256(
        f"{parallelism} {max_usd} ".encode() + hashlib.sha256(lines).digest()
    ).digest()
    order = BatchOrder(terms, read_lines(lines), fingerprint, key)
    batch = await services.batches.create(caller, order)
    response.headers["Location"] = location(f"/v1/batches/{batch.id}")
    forecast = await services.forecasts.of(caller, batch.graph_id)
    whole = None if forecast is None else forecast.times(batch.items, parallelism=parallelism)
    return CreatedBatchResponse.of(batch, await _cost(services, caller, batch), forecast=whole)


@router.post("/preview", dependencies=[lines_body], openapi_extra=_LINES, summary="Preview a batch")
async def preview_batch(
    lines: Lines, services: ServicesDep, caller: Writer, parallelism: Parallelism = 8
) -> BatchPreviewResponse:
    """Check all lines and forecast cost and duration, without starting or storing anything."""
    checked = await services.batches.check(caller, read_lines(lines))
    forecast = await services.forecasts.of(caller, checked.graph_id)
    whole = None if forecast is None else forecast.times(len(checked.items), parallelism=parallelism)
    return BatchPreviewResponse.of(checked, whole)


@router.get("", summary="List batches")
async def list_batches(services: ServicesDep, caller: RunReader, page: UuidPageParams) -> Page[BatchResponse]:
    """Batches of the key's account, newest first; their cost is that of the items that have ended."""
    shows_cost = caller.may("receipts:read")
    found = await services.batches.list_batches(caller.account_id, page)
    return Page.of(found, lambda batch: BatchResponse.of(batch, batch.cost_usd if shows_cost else None))


@router.get("/{batchId}", summary="Look up a batch")
async def get_batch(batch_id: BatchId, services: ServicesDep, caller: RunReader) -> BatchResponse:
    """How far it has come, and what it has cost so far."""
    return await _shown(services, caller, batch_id)


@router.post("/{batchId}/cancel", summary="Cancel a batch")
async def cancel_batch(batch_id: BatchId, services: ServicesDep, caller: Writer) -> BatchResponse:
    """Start no further item and cancel the runs of those that have not ended.

    A batch that another key has created needs `runs:read` as well.
    """
    batch = await services.batches.cancel(caller, batch_id)
    return BatchResponse.of(batch, await _cost(services, caller, batch))


@router.delete("/{batchId}", status_code=204, summary="Delete a batch")
async def delete_batch(batch_id: BatchId, services: ServicesDep, caller: Writer) -> None:
    """Delete a batch that has ended, with its results. Its runs and their receipts stay.

    A batch that another key has created needs `runs:read` as well.
    """
    await services.batches.delete(caller, batch_id)


@router.get(
    "/{batchId}/results",
    response_class=Response,
    responses={
        200: {
            "description": "One `BatchResultResponse` in each line.",
            "content": json_lines(JSON_LINES[0], "BatchResultResponse"),
            **ATTACHED,
        }
    },
    summary="A batch's results",
)
async def batch_results(
    batch_id: BatchId, services: ServicesDep, caller: RunReader, *, open_reader: OpenExportReader
) -> LineExport:
    """The items that have ended, in the order of the lines, also while others have not."""
    batch = await services.batches.get(caller.account_id, batch_id)
    with_cost = caller.may("receipts:read")

    async def lines() -> AsyncIterator[str]:
        async for results in services.batches.results(batch):
            shown = (BatchResultResponse.of(each, with_cost=with_cost) for each in results)
            yield "".join(f"{each.model_dump_json(by_alias=True)}\n" for each in shown)

    scope = open_reader(caller, caller.account_id)
    return LineExport(lines(), media_type=JSON_LINES[0], filename="results.jsonl", reader_scope=scope)


@router.get(
    "/{batchId}/events",
    response_class=EventSourceResponse,
    responses={200: {"description": "Server-sent events.", "content": server_sent("BatchResponse")}},
    summary="Follow a batch",
)
async def follow_batch(
    batch_id: BatchId,
    services: ServicesDep,
    caller: RunReader,
    heartbeat_s: HeartbeatS,
    open_reader: OpenStreamReader,
) -> EventSourceResponse:
    """An event `progress` with the batch at once and whenever it has changed, and at its end `done`."""
    encoder = NativeEncoder()
    first = await _shown(services, caller, batch_id)
    chunks = _progress(services, caller, first)
    scope = open_reader(caller, batch_id)
    return InterruptibleStream(chunks, encoder, heartbeat_s=heartbeat_s, reader_scope=scope)


async def _progress(
    services: Services, caller: Principal, shown: BatchResponse
) -> AsyncGenerator[bytes, None]:
    yield NativeEncoder.preamble
    sent = None
    while True:
        if shown != sent:
            kind = "progress" if shown.ended_at is None else "done"
            yield f"event: {kind}\ndata: {shown.model_dump_json(by_alias=True)}\n\n".encode()
            sent = shown
        if shown.ended_at is not None:
            return
        await anyio.sleep(_PROGRESS_EVERY_S)
        shown = await _shown(services, caller, shown.batch_id)


async def _shown(services: Services, caller: Principal, batch_id: UUID) -> BatchResponse:
    batch = await services.batches.get(caller.account_id, batch_id)
    return BatchResponse.of(batch, await _cost(services, caller, batch))


async def _cost(services: Services, caller: Principal, batch: Batch) -> Decimal | None:
    return await services.batches.cost_of(batch) if caller.may("receipts:read") else None
