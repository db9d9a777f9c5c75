"""Routes of responses."""

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import JSONResponse

from app.bootstrap.services import Services
from app.http.admission.checks import CheckedRoute, large_body
from app.http.dependencies import (
    ApprovalsPage,
    FingerprintedPosting,
    RunReader,
    RunStreamsDep,
    ServicesDep,
    Writer,
    readable_run,
)
from app.http.openai.answer import NOTHING, AnswerOptions, Received
from app.http.openai.continuing import received_up_to
from app.http.openai.errors import ERROR_RESPONSES, PATH
from app.http.openai.replying import name_ignored
from app.http.openai.responses.encoder import ResponseEncoder, WholeResponse
from app.http.openai.responses.ids import ResponseName
from app.http.openai.responses.input import ResponseRequest
from app.http.openai.responses.items import asked_in
from app.http.openai.responses.listing import ItemParams, item_list
from app.http.openai.responses.openapi import ITEMS, RESPONSE, WHOLE
from app.http.openai.responses.schemas import DeletedResponse
from app.http.openai.responses.starting import continue_response, start_response
from app.http.openai.responses.stored import read_items
from app.http.streaming.pausing import chunks_until_pause
from app.requests.principal import Principal
from app.runs.records import RunRecord

router = APIRouter(
    route_class=CheckedRoute, prefix=f"{PATH}/responses", tags=["openai"], responses=ERROR_RESPONSES
)

ResponseId = Annotated[str, Path(alias="responseId")]


@router.post(
    "", dependencies=[large_body], response_model=None, responses=RESPONSE, summary="Create a response"
)
async def create_openai_response(
    body: ResponseRequest,
    services: ServicesDep,
    caller: Writer,
    posting: FingerprintedPosting,
    streams: RunStreamsDep,
    page: ApprovalsPage,
) -> Response:
    """Answer the last message, or continue a run: with results, decisions, or after a person has answered.

    The model is a graph. Disconnecting does not stop the run, unless that is the default of the graph or of
    the server; never with `background`.
    """
    graph = services.graphs.get(body.model)
    await services.offload.run(lambda: body.history, size=body.chars)
    if (continued := await continue_response(services, caller, body)) is not None:
        record, received = continued
        is_object = await services.runs.has_schema(record.key)
    else:
        record, received = await start_response(services, caller, graph, body, posting), NOTHING
        is_object = body.schema_of_answer is not None
    options = AnswerOptions(body.model, is_object, has_usage=True, page=page)
    stops_unread = record.stops_unread and not body.background
    if body.stream:
        encoder = ResponseEncoder(record, options, received)
        followed = services.runs.follow(record.key)
        response: Response = streams.until_pause(
            caller, record.key, followed, encoder, stops_unread=stops_unread
        )
    elif body.background:
        response = JSONResponse(await _so_far(services, record, options, received))
    else:
        wait = partial(_complete, services, record, options, received)
        content = await streams.result(caller, record.key, wait, stops_unread=stops_unread)
        response = JSONResponse(content)
    name_ignored(response, body.ignored(graph))
    return response


@router.get("/{responseId}", response_model=None, responses=RESPONSE, summary="Read a response")
async def get_openai_response(
    response_id: ResponseId,
    services: ServicesDep,
    caller: RunReader,
    streams: RunStreamsDep,
    page: ApprovalsPage,
    *,
    stream: Annotated[bool, Query(description="Its events instead, as they come.")] = False,
    starting_after: Annotated[
        int, Query(ge=-1, le=2**31 - 1, description="The last event that the client has.")
    ] = -1,
    include_obfuscation: Annotated[bool | None, Query(description="Has no effect.")] = None,  # noqa: ARG001
) -> Response:
    """The response as far as it goes."""
    record, options, received = await _named(services, caller, response_id, page)
    if not stream:
        return JSONResponse(await _so_far(services, record, options, received))
    encoder = ResponseEncoder(record, options, received, starting_after=starting_after)
    followed = services.runs.follow(record.key)
    return streams.until_pause(caller, record.key, followed, encoder, stops_unread=record.stops_unread)


@router.get(
    "/{responseId}/input_items",
    response_model=None,
    responses=ITEMS,
    summary="List what a response was asked",
)
async def list_openai_input_items(
    response_id: ResponseId, services: ServicesDep, caller: RunReader, chosen: ItemParams
) -> Response:
    """The messages of its run, or what was answered to what had waited in that."""
    name = ResponseName.named(response_id)
    record = await readable_run(services, caller, name.run_id)
    asked = partial(asked_in, name, has_images=chosen.has_images)
    items, size = await read_items(services, record, lambda run: list(asked(run)))
    return await item_list(services, chosen.page_of(items), size=size)


@router.post("/{responseId}/cancel", response_model=None, responses=WHOLE, summary="Cancel a response")
async def cancel_openai_response(
    response_id: ResponseId,
    services: ServicesDep,
    caller: Writer,
    streams: RunStreamsDep,
    page: ApprovalsPage,
) -> Response:
    """Stop its run, and wait for its end; one that has ended is not changed."""
    record, options, received = await _named(services, caller, response_id, page)
    await services.commands.stop(record.key, "cancel")
    await streams.result(caller, record.key, partial(services.runs.wait, record.key))
    return JSONResponse(await _so_far(services, record, options, received))


@router.delete("/{responseId}", summary="Delete the contents of a response")
async def delete_openai_response(
    response_id: ResponseId, services: ServicesDep, caller: Writer
) -> DeletedResponse:
    """Delete request, answer, events and files of its run, which has ended. The run and its receipts stay."""
    name = ResponseName.named(response_id)
    record = await readable_run(services, caller, name.run_id)
    await services.contents.delete(record.key)
    return DeletedResponse(id=response_id)


async def _named(
    services: Services, caller: Principal, response_id: str, page: str
) -> tuple[RunRecord, AnswerOptions, Received]:
    """The run of a response, and what its client has had before."""
    name = ResponseName.named(response_id)
    record = await readable_run(services, caller, name.run_id)
    is_object = await services.runs.has_schema(record.key)
    received = await received_up_to(services, record, name.after) if name.after else NOTHING
    return record, AnswerOptions(record.graph_id, is_object, has_usage=True, page=page), received


async def _so_far(
    services: Services, record: RunRecord, options: AnswerOptions, received: Received
) -> dict[str, Any]:
    record = await services.runs.get_with_contents(record.key)
    whole = WholeResponse(record, options, received)
    whole.encode_so_far(await services.runs.events(record.key, apart=received.position))
    return whole.content


async def _complete(
    services: Services, record: RunRecord, options: AnswerOptions, received: Received
) -> dict[str, Any]:
    whole = WholeResponse(record, options, received)
    async for _ in chunks_until_pause(services.runs.follow(record.key), whole):
        pass
    whole.require_answer()
    return whole.content
