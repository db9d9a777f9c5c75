"""Routes of the Vercel AI SDK: `useChat` posts messages and reads UI message streams."""

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, TypeAlias

from fastapi import APIRouter, Depends, Header, Path, Query, Response
from sse_starlette import EventSourceResponse

from app.http.admission.checks import CheckedRoute, large_body
from app.http.ai_sdk.continuing import continue_run
from app.http.ai_sdk.encoder import AiSdkEncoder
from app.http.ai_sdk.input import ChatRequest
from app.http.ai_sdk.mapper import OLDEST_VERSION
from app.http.ai_sdk.messages import ui_messages
from app.http.ai_sdk.openapi import NO_CONTENT, STREAM
from app.http.api.conversations.chats import page_of_chats
from app.http.api.conversations.schemas import ChatResponse
from app.http.api.runs.schemas import AcceptedRunResponse
from app.http.dependencies import (
    GraphIdParam,
    KeyedPosting,
    RunReader,
    RunStreamsDep,
    ServicesDep,
    Writer,
)
from app.http.parameters import PageParams
from app.http.reached_budgets import name_reached
from app.http.response_model import Page
from app.http.streaming.discarded_entries import discarded_in, without_discarded
from app.ids import STATE_KEY_PATTERN
from app.runs.chats import Chat

router = APIRouter(route_class=CheckedRoute, prefix="/v1/ai-sdk/{graphId}", tags=["ai-sdk"])

APPROVALS_SINCE: Final = 6
"""The first major version of `ai` with parts for approvals."""

ChatId: TypeAlias = Annotated[str, Path(alias="chatId", pattern=STATE_KEY_PATTERN)]


async def client_version(
    header: Annotated[
        int | None,
        Header(
            alias="X-AI-SDK-Version",
            ge=5,
            description="The client's major version of `ai`; from 6 on, approvals have parts of their own.",
        ),
    ] = None,
    version: Annotated[int | None, Query(ge=5, description="The same; the header takes precedence.")] = None,
) -> int:
    """The client's major version of `ai`, as far as the request names it."""
    return header or version or OLDEST_VERSION


ClientVersion: TypeAlias = Annotated[int, Depends(client_version)]


@router.post(
    "/chat",
    dependencies=[large_body],
    response_class=EventSourceResponse,
    responses=STREAM,
    summary="Send a chat message and stream the answer",
)
async def chat(
    graph_id: GraphIdParam,
    body: ChatRequest,
    services: ServicesDep,
    caller: Writer,
    posting: KeyedPosting,
    streams: RunStreamsDep,
    version: ClientVersion,
) -> EventSourceResponse:
    """Answer the last message, or resume a run with a person's decisions or the results of client tools.

    Posting the same message again joins its run. Disconnecting does not stop the run, unless
    `onDisconnect` is `cancel`, or the default of the graph or of the server.
    """
    graph = services.graphs.get(graph_id)
    if body.shows_approvals:
        version = max(version, APPROVALS_SINCE)
    approvals = graph.asks and version >= APPROVALS_SINCE
    new_encoder = partial(AiSdkEncoder, approvals=approvals, version=version)
    chat_of_run, discarded = Chat(graph_id, body.id), None
    if (continued := await continue_run(services, caller, chat_of_run, body, new_encoder)) is not None:
        record, encoder = continued
    else:
        body.require_no_system(graph)
        tools, schemas = await services.client_tools.usable(caller, body.described_tools)
        message = replace(body.chat_message(graph_id, tools, services.attachments), schemas=schemas)
        await services.client_tools.answer_left(caller, chat_of_run, body.left_tool_results)
        record = await services.chats.start(caller, message, **posting)
        await services.readers.cancel_left_before(record)
        if record.request_id != posting["request_id"]:
            # Another post started it.
            discarded = discarded_in(await services.runs.events(record.key))
        encoder = new_encoder(record.key.run_id)
    batches = without_discarded(services.runs.follow(record.key), known=discarded or {})
    stream = streams.until_pause(caller, record.key, batches, encoder, stops_unread=record.stops_unread)
    name_reached(stream, record)
    return stream


@router.get(
    "/chat/{chatId}/stream",
    response_class=EventSourceResponse,
    responses=STREAM | NO_CONTENT,
    summary="Resume the stream of a chat's answer",
)
async def resume_chat(
    graph_id: GraphIdParam,
    chat_id: ChatId,
    services: ServicesDep,
    caller: Writer,
    streams: RunStreamsDep,
    version: ClientVersion,
) -> Response:
    """Stream the current answer from its beginning, as `resumeStream` expects."""
    approvals = services.graphs.get(graph_id).asks and version >= APPROVALS_SINCE
    runs = await services.chats.active_runs(caller, Chat(graph_id, chat_id))
    if not runs:
        return Response(status_code=204)
    caller.require_reading(runs[-1].api_key_id, runs[-1].labels.end_user)
    run = runs[-1]
    encoder = AiSdkEncoder(run.key.run_id, approvals=approvals, version=version)
    discarded = discarded_in(await services.runs.events(run.key))
    batches = without_discarded(services.runs.follow(run.key), known=discarded)
    return streams.until_pause(caller, run.key, batches, encoder, stops_unread=run.stops_unread)


@router.get("/chat/{chatId}/messages", summary="Read a chat's messages")
async def chat_messages(
    graph_id: GraphIdParam, chat_id: ChatId, services: ServicesDep, caller: RunReader
) -> list[dict[str, Any]]:
    """The chat as `UIMessage[]`, for `useChat({ messages })` on another device.

    The ids are those of the streams. What an active run has written is left out: `resumeStream` brings it.
    """
    graph = services.graphs.get(graph_id)
    view = await services.chats.view(caller, Chat(graph_id, chat_id))
    return ui_messages(view.ended, show_thinking=graph.show_thinking)


@router.get("/chats", summary="List chats")
async def list_chats(
    graph_id: GraphIdParam,
    services: ServicesDep,
    caller: RunReader,
    page: PageParams,
) -> Page[ChatResponse]:
    """The chats with this graph, most recently used first."""
    return await page_of_chats(services, caller, graph_id, page)


@router.post(
    "/chat/{chatId}/stop",
    status_code=202,
    response_model=AcceptedRunResponse,
    responses=NO_CONTENT,
    summary="Stop a chat's answer",
)
async def stop_chat(
    graph_id: GraphIdParam, chat_id: ChatId, services: ServicesDep, caller: Writer
) -> AcceptedRunResponse | Response:
    """Cancel running and waiting answers of a chat; `stop()` of the SDK only stops reading."""
    services.graphs.get(graph_id)
    stopped = await services.chats.stop(caller, Chat(graph_id, chat_id))
    if stopped is None:
        return Response(status_code=204)
    return AcceptedRunResponse(run_id=stopped.key.run_id, status=stopped.status)
