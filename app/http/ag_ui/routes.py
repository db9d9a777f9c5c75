"""Route of AG-UI, the Agent-User Interaction protocol: each graph is an agent."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends
from sse_starlette import EventSourceResponse

from app.http.admission.checks import CheckedRoute, large_body
from app.http.ag_ui.input import AgUiInput
from app.http.ag_ui.openapi import INPUT, STREAM
from app.http.ag_ui.resume import resume_segment
from app.http.ag_ui.segment import start_segment
from app.http.dependencies import (
    GraphIdParam,
    HeartbeatS,
    OpenStreamReader,
    RequestId,
    ServicesDep,
    TraceOfCaller,
    Writer,
)
from app.http.streaming.pausing import chunks_until_pause
from app.http.streaming.sse import stream_chunks

router = APIRouter(route_class=CheckedRoute, prefix="/v1/ag-ui", tags=["ag-ui"])


def ag_ui_input(body: Annotated[dict[str, Any], Body()]) -> AgUiInput:
    """Validate the body; in a thread, because it may be large."""
    return AgUiInput.parse(body)


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
    request_id: RequestId,
    *,
    trace: TraceOfCaller,
    heartbeat_s: HeartbeatS,
    open_reader: OpenStreamReader,
) -> EventSourceResponse:
    """Start a run and stream it as AG-UI events, or join the run with its id.

    `threadId` is the conversation's `stateKey`. If a tool call needs a person's decision, the stream ends
    with the outcome `interrupt`; post again with `resume` to continue. Disconnecting does not stop the run.
    """
    if posted.resume:
        segment = await resume_segment(services, caller, graph_id, posted=posted)
    else:
        segment = await start_segment(
            services, caller, graph_id, posted=posted, request_id=request_id, trace=trace
        )
    encoder = segment.encoder(posted)
    chunks = chunks_until_pause(services.runs.follow(segment.run), encoder)
    return stream_chunks(
        chunks, encoder, heartbeat_s=heartbeat_s, reader_scope=open_reader(caller, segment.run)
    )
