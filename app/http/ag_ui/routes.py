"""AG-UI: the graphs as agents of the Agent-User Interaction protocol."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

from ag_ui.core import Message
from fastapi import APIRouter, Body, Depends
from sse_starlette import EventSourceResponse

from app.bootstrap.services import Services
from app.http.admission.checks import CheckedRoute, large_body
from app.http.ag_ui.encoder import AgUiEncoder
from app.http.ag_ui.input import AgUiInput, before, request_of, require_no_system, up_to_the_user
from app.http.ag_ui.openapi import AG_UI_EVENT, AG_UI_INPUT
from app.http.ag_ui.resume import resume
from app.http.ag_ui.stream import RunSegment, ag_ui_chunks
from app.http.dependencies import GraphIdParam, HeartbeatS, OpenStreamReader, RequestId, ServicesDep, Writer
from app.http.openapi.document import server_sent
from app.http.streaming.sse import stream_chunks
from app.ids import RUN_ID_PATTERN, STATE_KEY_PATTERN, RunId, RunKey
from app.principal import Principal
from app.runs.commands.service import RunNotFound

router = APIRouter(route_class=CheckedRoute, prefix="/v1/ag-ui", tags=["ag-ui"])

STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The events of AG-UI 1.0, from `RUN_STARTED` to `RUN_FINISHED` or `RUN_ERROR`.",
        "content": server_sent(AG_UI_EVENT),
    }
}
INPUT: dict[str, Any] = {
    "allOf": [{"$ref": f"#/components/schemas/{AG_UI_INPUT}"}],
    "properties": {
        "threadId": {"pattern": STATE_KEY_PATTERN},
        "runId": {"pattern": RUN_ID_PATTERN},
        "messages": {"minItems": 1},
        "tools": {"maxItems": 0},
    },
}
"""For readers of the OpenAPI document; the package that speaks AG-UI does the checking."""


def ag_ui_input(body: Annotated[dict[str, Any], Body()]) -> AgUiInput:
    """What was posted."""
    return AgUiInput.read(body)


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
    heartbeat_s: HeartbeatS,
    open_reader: OpenStreamReader,
) -> EventSourceResponse:
    """Start a run and stream it as AG-UI's events, or join the one that has its id. Leaving does not stop it.

    `threadId` is the conversation's `stateKey`. Where a tool call waits for a person the stream ends
    with the outcome `interrupt`; post again with `resume` to go on.
    """
    if posted.resume:
        stretch = await resume(services, caller, graph_id, posted=posted)
    else:
        stretch = await _started(services, caller, graph_id, posted=posted, request_id=request_id)
    encoder = _encoder(posted, stretch)
    chunks = ag_ui_chunks(services.runs.follow(stretch.run), encoder)
    return stream_chunks(
        chunks, encoder, heartbeat_s=heartbeat_s, reader_scope=open_reader(caller, stretch.run)
    )


async def _started(
    services: Services, caller: Principal, graph_id: str, *, posted: AgUiInput, request_id: str
) -> RunSegment:
    if (spec := services.graphs.find(graph_id)) is not None:
        require_no_system(posted, spec)
    run, messages = RunKey(caller.account_id, RunId(posted.run_id)), posted.messages
    stretch = RunSegment(run)
    with suppress(RunNotFound):
        stretch = RunSegment(run, said=await services.runs.events(run))
        # Who comes back posts what was heard of the answer, too.
        messages = up_to_the_user(before(messages, _minted(posted, stretch)))
    request = request_of(graph_id, posted, messages)
    await services.runs.start(caller, request, request_id=request_id)
    return stretch


def _encoder(posted: AgUiInput, stretch: RunSegment) -> AgUiEncoder:
    minted = _minted(posted, stretch)
    heard = any(message.id in minted for message in posted.messages)
    return _named(posted, stretch, restated=before(posted.messages, minted) if heard else None)


def _minted(posted: AgUiInput, stretch: RunSegment) -> set[str]:
    """The ids of what a client may have heard already of what it is going to be told."""
    return _named(posted, stretch).minted(stretch.said)


def _named(
    posted: AgUiInput, stretch: RunSegment, *, restated: Sequence[Message] | None = None
) -> AgUiEncoder:
    return AgUiEncoder(
        thread_id=posted.thread_id,
        run_id=posted.run_id,
        our_run_id=stretch.run.run_id,
        after=stretch.after,
        restated=restated,
    )
