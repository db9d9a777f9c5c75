"""Chats of the Vercel AI SDK: what `useChat` posts, and its UI message stream."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, suppress
from typing import Annotated, Any, Final, Literal, TypeAlias
from uuid import uuid5

from fastapi import APIRouter, Depends, Header, Path, Query, Response
from sse_starlette import EventSourceResponse

from app.bootstrap.services import Services
from app.errors import Conflict
from app.executors.approvals import PermissionDecided
from app.executors.control import RunEnded
from app.http.admission.checks import CheckedRoute, large_body
from app.http.ai_sdk.encoder import AiSdkEncoder
from app.http.ai_sdk.input import ChatRequest, UiMessage
from app.http.api.runs.schemas import AcceptedRun
from app.http.dependencies import (
    GraphIdParam,
    HeartbeatS,
    IdempotencyKey,
    OpenStreamReader,
    RequestId,
    ServicesDep,
    Writer,
    run_key,
)
from app.http.streaming.sse import ReaderScope, split_batch, stream_chunks
from app.ids import STATE_KEY_PATTERN, RunKey
from app.principal import Principal
from app.runs.commands.service import Decide, RunNotFound
from app.runs.records import RunRecord
from app.runs.service import RunIdTaken
from app.streams.port import LogEntry

router = APIRouter(route_class=CheckedRoute, prefix="/v1/ai-sdk/{graphId}", tags=["ai-sdk"])


class MessageChanged(Conflict):
    """A message of this id has said something else before; fork the conversation to go on from there."""

    code = "message_changed"


class AnswerStands(Conflict):
    """This message has its answer; fork the conversation to have another one."""

    code = "answer_stands"


KNOWS_APPROVALS: Final = 6
"""The first major version of `ai` that has parts for consent."""

_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": (
            "A UI message stream, version 1: each `data:` is a part as JSON, the last one `[DONE]`. Parts: "
            "`start`, `start-step`, `text-start`, `text-delta`, `text-end`, `reasoning-start`, "
            "`reasoning-delta`, `reasoning-end`, `tool-input-available`, `tool-output-available`, "
            "`tool-output-error`, `data-…`, `finish-step`, `message-metadata`, `error`, `abort`, `finish`; "
            "for version 6 and later also `tool-approval-request` and `tool-output-denied`."
        ),
        "headers": {
            "x-vercel-ai-ui-message-stream": {"schema": {"type": "string", "enum": ["v1"]}},
        },
        "content": {"text/event-stream": {}},
    }
}
_NOTHING: dict[int | str, dict[str, Any]] = {204: {"description": "Nothing is under way."}}

ChatId: TypeAlias = Annotated[str, Path(alias="chatId", pattern=STATE_KEY_PATTERN)]


def knows_approvals(
    header: Annotated[
        int | None,
        Header(
            alias="X-AI-SDK-Version",
            ge=5,
            description="The client's major version of `ai`; from 6 on, consent has parts of its own.",
        ),
    ] = None,
    version: Annotated[int | None, Query(ge=5, description="The same; the header wins.")] = None,
) -> bool:
    """Whether the client has asked for parts that version 5 would choke on."""
    return (header or version or 0) >= KNOWS_APPROVALS


KnowsApprovals: TypeAlias = Annotated[bool, Depends(knows_approvals)]


@router.post(
    "/chat",
    dependencies=[large_body],
    response_class=EventSourceResponse,
    responses=_STREAM,
    summary="Say something in a chat and stream the answer",
)
async def chat(
    graph_id: GraphIdParam,
    body: ChatRequest,
    services: ServicesDep,
    caller: Writer,
    request_id: RequestId,
    key: IdempotencyKey,
    *,
    heartbeat_s: HeartbeatS,
    open_reader: OpenStreamReader,
    approvals: KnowsApprovals,
) -> EventSourceResponse:
    """Answer the last message, or go on where a person has answered a request for consent.

    The same message posted again joins its run. Leaving does not stop the run.
    """
    consents = bool(services.graphs.get(graph_id).approve) and approvals
    if (message := body.answered) is not None:
        caller.require("runs:approve")
        run = await _decide(services, caller, graph_id, chat_id=body.id, message=message)
        answered = frozenset(answer.id for answer in message.answers)
        encoder = AiSdkEncoder(run.run_id, approvals=consents, answered=answered)
    else:
        run = await _ask(services, caller, graph_id, body=body, request_id=request_id, idempotency_key=key)
        encoder = AiSdkEncoder(run.run_id, approvals=consents)
    return _stream(services, run, encoder, reader_scope=open_reader(caller, run), heartbeat_s=heartbeat_s)


@router.get(
    "/chat/{chatId}/stream",
    response_class=EventSourceResponse,
    responses=_STREAM | _NOTHING,
    summary="Resume a chat's answer",
)
async def resume_chat(
    graph_id: GraphIdParam,
    chat_id: ChatId,
    services: ServicesDep,
    caller: Writer,
    heartbeat_s: HeartbeatS,
    open_reader: OpenStreamReader,
    approvals: KnowsApprovals,
) -> Response:
    """Stream the answer under way from its beginning, as `resumeStream` expects."""
    consents = bool(services.graphs.get(graph_id).approve) and approvals
    under_way = await _under_way(services, caller, graph_id, chat_id=chat_id)
    if not under_way:
        return Response(status_code=204)
    caller.require_reading(under_way[-1].api_key_id)
    run = under_way[-1].key
    encoder = AiSdkEncoder(run.run_id, approvals=consents)
    return _stream(services, run, encoder, reader_scope=open_reader(caller, run), heartbeat_s=heartbeat_s)


@router.post(
    "/chat/{chatId}/stop",
    status_code=202,
    response_model=AcceptedRun,
    responses=_NOTHING,
    summary="Stop a chat's answer",
)
async def stop_chat(
    graph_id: GraphIdParam, chat_id: ChatId, services: ServicesDep, caller: Writer
) -> AcceptedRun | Response:
    """Cancel what is under way in a chat and what waits; `stop()` of the SDK only stops reading."""
    services.graphs.get(graph_id)
    under_way = await _under_way(services, caller, graph_id, chat_id=chat_id)
    if not under_way:
        return Response(status_code=204)
    # The last one first: none that waits may begin meanwhile.
    stopped = [await services.commands.stop(run.key, "cancel") for run in reversed(under_way)]
    return AcceptedRun(run_id=stopped[0].key.run_id, status=stopped[0].status)


async def _ask(
    services: Services,
    caller: Principal,
    graph_id: str,
    *,
    body: ChatRequest,
    request_id: str,
    idempotency_key: str | None,
) -> RunKey:
    """Start the run of the last message, or find it; raises `MessageChanged`, `AnswerStands`."""
    body.require_no_system(services.graphs.get(graph_id))
    run_id = None if idempotency_key else await _run_id(services, caller, graph_id, body=body)
    whole = not await services.conversations.has_history(caller.account_id, body.id)

    # A message posted again may have been asked for with its history, before the conversation began.
    for history in (whole, not whole):
        with suppress(RunIdTaken):
            run = await services.runs.start(
                caller,
                body.to_run(graph_id, run_id, whole=history),
                request_id=request_id,
                idempotency_key=idempotency_key,
            )
            return run.key
    raise MessageChanged


async def _run_id(services: Services, caller: Principal, graph_id: str, *, body: ChatRequest) -> str:
    """The run of the last message: always the same one, but anew where that has failed and is asked again."""
    run_id = uuid5(caller.account_id, f"{graph_id}\n{body.id}\n{body.question.id}")
    while body.trigger == "regenerate-message":
        try:
            run = await services.runs.get(run_key(caller, str(run_id)))
        except RunNotFound:
            break
        caller.require_reading(run.api_key_id)
        if run.status == "succeeded":
            raise AnswerStands
        if not run.finished:
            break
        run_id = uuid5(run_id, "again")
    return str(run_id)


async def _decide(
    services: Services, caller: Principal, graph_id: str, *, chat_id: str, message: UiMessage
) -> RunKey:
    """Give a run what was decided in its message; raises `RunNotFound`, `PermissionNotFound`."""
    run = await services.runs.get(run_key(caller, message.id))
    if (run.graph_id, run.state_key) != (graph_id, chat_id):
        raise RunNotFound
    caller.require_reading(run.api_key_id)
    for answer in message.answers:
        decision: Literal["allow", "deny"] = "allow" if answer.approved else "deny"
        command = Decide(request_id=answer.id, decision=decision, message=answer.reason or None)
        # Too late: what became of the call is in the stream.
        with suppress(RunEnded, PermissionDecided):
            await services.commands.submit(run.key, command)
    return run.key


async def _under_way(
    services: Services, caller: Principal, graph_id: str, *, chat_id: str
) -> list[RunRecord]:
    runs = await services.conversations.active_runs(caller.account_id, chat_id)
    return [run for run in runs if run.graph_id == graph_id]


def _stream(
    services: Services, run: RunKey, encoder: AiSdkEncoder, *, reader_scope: ReaderScope, heartbeat_s: float
) -> EventSourceResponse:
    chunks = _until_asked(services.runs.follow(run), encoder)
    return stream_chunks(chunks, encoder, heartbeat_s=heartbeat_s, reader_scope=reader_scope)


async def _until_asked(
    batches: AsyncGenerator[Sequence[LogEntry], None], encoder: AiSdkEncoder
) -> AsyncIterator[bytes]:
    """The run's frames, to its end or to where a person has to answer.

    That it waits is known when everything that is ready was heard: a replay goes past what was answered.
    """
    yield encoder.preamble
    async with aclosing(batches):
        async for batch in batches:
            for part in split_batch(batch):
                yield encoder.encode(part)
            if encoder.waits:
                yield encoder.pause()
                return
