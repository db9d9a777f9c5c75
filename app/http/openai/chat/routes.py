"""Routes of chat completions."""

from functools import partial
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from app.bootstrap.services import Services
from app.graphs.spec import GraphSpec
from app.http.admission.checks import CheckedRoute, large_body
from app.http.dependencies import ApprovalsPage, FingerprintedPosting, RunStreamsDep, ServicesDep, Writer
from app.http.openai.answer import NOTHING, AnswerOptions, Received
from app.http.openai.chat.completion import WholeCompletion
from app.http.openai.chat.encoder import ChunkEncoder
from app.http.openai.chat.input import ChatCompletionRequest
from app.http.openai.chat.openapi import COMPLETION
from app.http.openai.continuing import continue_run
from app.http.openai.errors import ERROR_RESPONSES, PATH
from app.http.openai.replying import name_ignored
from app.http.streaming.discarded_entries import without_discarded
from app.http.streaming.pausing import chunks_until_pause
from app.requests.principal import Principal
from app.runs.records import RunRecord
from app.runs.requests.posted import Posting

router = APIRouter(route_class=CheckedRoute, prefix=PATH, tags=["openai"], responses=ERROR_RESPONSES)


@router.post(
    "/chat/completions",
    dependencies=[large_body],
    response_model=None,
    responses=COMPLETION,
    summary="Answer a chat",
)
async def create_chat_completion(
    body: ChatCompletionRequest,
    services: ServicesDep,
    caller: Writer,
    posting: FingerprintedPosting,
    streams: RunStreamsDep,
    page: ApprovalsPage,
) -> Response:
    """Answer the last message, or continue a run: with results of tools, or after a person has answered.

    The model is a graph. The conversation that gave the last answer is continued. Disconnecting does not stop
    the run, unless that is the default of the graph or of the server.
    """
    graph = services.graphs.get(body.model)
    await services.offload.run(lambda: body.history, size=body.chars)
    record, received = await continue_run(services, caller, body, body.history.waiting) or (
        await _start(services, caller, graph, body, posting),
        NOTHING,
    )
    options = AnswerOptions(body.model, body.schema_of_answer is not None, body.has_usage, page)
    if body.stream:
        batches = without_discarded(services.runs.follow(record.key))
        encoder = ChunkEncoder(record.key.run_id, options, received)
        response: Response = streams.until_pause(
            caller, record.key, batches, encoder, stops_unread=record.stops_unread
        )
    else:
        wait = partial(_completed, services, record, options, received)
        content = await streams.result(caller, record.key, wait, stops_unread=record.stops_unread)
        response = JSONResponse(content)
    name_ignored(response, body.ignored(graph))
    return response


async def _completed(
    services: Services, record: RunRecord, options: AnswerOptions, received: Received
) -> dict[str, Any]:
    whole = WholeCompletion(record.key.run_id, options, received)
    async for _ in chunks_until_pause(services.runs.follow(record.key), whole):
        pass
    return whole.content


async def _start(
    services: Services, caller: Principal, graph: GraphSpec, body: ChatCompletionRequest, posting: Posting
) -> RunRecord:
    chats = services.stateless_chats
    if (again := await chats.posted_before(caller, **posting)) is not None:
        return again
    body.require_answerable(graph)
    tools, schemas = await services.client_tools.usable(caller, body.described_tools)
    message_in = partial(body.chat_message, tools=tools, rules=services.attachments, schemas=schemas)
    opening = body.opening(caller)
    return await chats.start(caller, opening, message_in, body.last_answer, **posting)
