"""Routes of the Vercel AI SDK: `useChat` posts messages and reads UI message streams."""

from typing import Annotated, Final, TypeAlias

from fastapi import APIRouter, Depends, Header, Path, Query, Response
from sse_starlette import EventSourceResponse

from app.bootstrap.services import Services
from app.http.admission.checks import CheckedRoute, large_body
from app.http.ai_sdk.encoder import AiSdkEncoder
from app.http.ai_sdk.input import ChatRequest
from app.http.ai_sdk.openapi import NO_CONTENT, STREAM
from app.http.api.runs.schemas import AcceptedRunResponse
from app.http.dependencies import (
    GraphIdParam,
    HeartbeatS,
    IdempotencyKey,
    OpenStreamReader,
    RequestId,
    ServicesDep,
    TraceOfCaller,
    Writer,
    run_key,
)
from app.http.streaming.pausing import chunks_until_pause
from app.http.streaming.sse import ReaderScope, stream_chunks
from app.ids import STATE_KEY_PATTERN, RunKey
from app.runs.chats import Chat

router = APIRouter(route_class=CheckedRoute, prefix="/v1/ai-sdk/{graphId}", tags=["ai-sdk"])

APPROVALS_SINCE: Final = 6
"""The first major version of `ai` with parts for approvals."""

ChatId: TypeAlias = Annotated[str, Path(alias="chatId", pattern=STATE_KEY_PATTERN)]


async def supports_approvals(
    header: Annotated[
        int | None,
        Header(
            alias="X-AI-SDK-Version",
            ge=5,
            description="The client's major version of `ai`; from 6 on, approvals have parts of their own.",
        ),
    ] = None,
    version: Annotated[int | None, Query(ge=5, description="The same; the header takes precedence.")] = None,
) -> bool:
    """Whether the client supports parts that version 5 would reject."""
    return (header or version or 0) >= APPROVALS_SINCE


SupportsApprovals: TypeAlias = Annotated[bool, Depends(supports_approvals)]


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
    request_id: RequestId,
    key: IdempotencyKey,
    *,
    trace: TraceOfCaller,
    heartbeat_s: HeartbeatS,
    open_reader: OpenStreamReader,
    approvals: SupportsApprovals,
) -> EventSourceResponse:
    """Answer the last message, or resume a run with a person's decisions.

    Posting the same message again joins its run. Disconnecting does not stop the run.
    """
    graph = services.graphs.get(graph_id)
    approvals = bool(graph.approve) and approvals
    if (message := body.decided_message) is not None:
        caller.require("runs:approve")
        run = run_key(caller, message.id)
        await services.chats.decide(caller, Chat(graph_id, body.id), run, decisions=message.decisions)
        decided = frozenset(decision.request_id for decision in message.decisions)
        encoder = AiSdkEncoder(run.run_id, approvals=approvals, decided=decided)
    else:
        body.require_no_system(graph)
        record = await services.chats.start(
            caller,
            body.chat_message(graph_id),
            request_id=request_id,
            idempotency_key=key,
            caller_trace=trace,
        )
        run = record.key
        encoder = AiSdkEncoder(run.run_id, approvals=approvals)
    return _stream(services, run, encoder, reader_scope=open_reader(caller, run), heartbeat_s=heartbeat_s)


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
    heartbeat_s: HeartbeatS,
    open_reader: OpenStreamReader,
    approvals: SupportsApprovals,
) -> Response:
    """Stream the current answer from its beginning, as `resumeStream` expects."""
    approvals = bool(services.graphs.get(graph_id).approve) and approvals
    runs = await services.chats.active_runs(caller, Chat(graph_id, chat_id))
    if not runs:
        return Response(status_code=204)
    caller.require_reading(runs[-1].api_key_id)
    run = runs[-1].key
    encoder = AiSdkEncoder(run.run_id, approvals=approvals)
    return _stream(services, run, encoder, reader_scope=open_reader(caller, run), heartbeat_s=heartbeat_s)


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


def _stream(
    services: Services, run: RunKey, encoder: AiSdkEncoder, *, reader_scope: ReaderScope, heartbeat_s: float
) -> EventSourceResponse:
    chunks = chunks_until_pause(services.runs.follow(run), encoder)
    return stream_chunks(chunks, encoder, heartbeat_s=heartbeat_s, reader_scope=reader_scope)
