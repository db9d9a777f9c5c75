"""Routes of AG-UI, the Agent-User Interaction protocol: each graph is an agent."""

from functools import partial
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Body, Depends, Path, Query, Response
from sse_starlette import EventSourceResponse

from app.http.admission.checks import CheckedRoute, large_body
from app.http.ag_ui.continuing import continue_segment
from app.http.ag_ui.history import messages_json, work_size
from app.http.ag_ui.input import AgUiInput
from app.http.ag_ui.openapi import INPUT, STREAM
from app.http.ag_ui.releases.dialect import RELEASE_PATTERN
from app.http.ag_ui.segment import show_conversation, start_segment, with_conversation
from app.http.api.conversations.chats import page_of_chats
from app.http.api.conversations.schemas import ChatResponse
from app.http.dependencies import (
    GraphIdParam,
    PostingDep,
    RunReader,
    RunStreamsDep,
    ServicesDep,
    Writer,
)
from app.http.parameters import PageParams
from app.http.response_model import Page
from app.ids import STATE_KEY_PATTERN
from app.runs.chats import Chat

ThreadId: TypeAlias = Annotated[str, Path(alias="threadId", pattern=STATE_KEY_PATTERN)]

router = APIRouter(route_class=CheckedRoute, prefix="/v1/ag-ui", tags=["ag-ui"])


def ag_ui_input(
    body: Annotated[dict[str, Any], Body()],
    version: Annotated[
        str | None,
        Query(
            pattern=RELEASE_PATTERN,
            description="The client's release of `@ag-ui/client`. Those before 1.0 do not post it.",
        ),
    ] = None,
) -> AgUiInput:
    """Validate the body; in a thread, because it may be large."""
    return AgUiInput.parse(body, release=version)


@router.post(
    "/{graphId}",
    dependencies=[large_body],
    response_class=EventSourceResponse,
    responses=STREAM,
    openapi_extra={"requestBody": {"content": {"application/json": {"schema": INPUT}}}},
    summary="Run a graph for an AG-UI client",
)
async def run_ag_ui(
    graph_id: GraphIdParam,
    posted: Annotated[AgUiInput, Depends(ag_ui_input)],
    services: ServicesDep,
    caller: Writer,
    posting: PostingDep,
    streams: RunStreamsDep,
) -> EventSourceResponse:
    """Start a run and stream it as AG-UI events, or join the run with its id.

    `threadId` is the conversation's `stateKey`. If a tool call needs a person's decision, the stream ends
    with the outcome `interrupt`; post again with `resume` to continue. If the model calls one of `tools`,
    it ends with `pendingToolCallIds`; post again with their `tool` messages. Disconnecting does not stop
    the run, unless `forwardedProps.runtally.onDisconnect` is `cancel`, or the default of the graph or of the
    server.
    """
    segment = await continue_segment(services, caller, graph_id, posted=posted)
    if segment is None:
        segment = await start_segment(services, caller, graph_id, posted=posted, posting=posting)
    encoder = segment.encoder(posted)
    show = partial(show_conversation, services, segment, posted, encoder)
    batches = with_conversation(services.runs.follow(segment.run), segment, show)
    return streams.until_pause(caller, segment.run, batches, encoder, stops_unread=segment.stops_unread)


@router.get(
    "/{graphId}/threads/{threadId}/messages",
    response_model=list[dict[str, Any]],
    summary="Read a thread's messages",
)
async def thread_messages(
    graph_id: GraphIdParam, thread_id: ThreadId, services: ServicesDep, caller: RunReader
) -> Response:
    """The thread as AG-UI messages, for another device; what an active run has written is left out."""
    services.graphs.get(graph_id)
    view = await services.chats.view(caller, Chat(graph_id, thread_id))
    content = await services.offload.run(partial(messages_json, view.ended), size=work_size(view.entries))
    return Response(content, media_type="application/json")


@router.get("/{graphId}/threads", summary="List threads")
async def list_threads(
    graph_id: GraphIdParam,
    services: ServicesDep,
    caller: RunReader,
    page: PageParams,
) -> Page[ChatResponse]:
    """The threads with this graph, most recently used first."""
    return await page_of_chats(services, caller, graph_id, page)
