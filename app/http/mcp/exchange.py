"""McpExchange: one message of a client, and its response."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from fastapi import Response
from fastapi.responses import JSONResponse
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params, progress_token_from_params
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    CallToolRequestParams,
    JSONRPCNotification,
    JSONRPCRequest,
    ProgressToken,
    RequestId,
)
from mcp_types.methods import validate_client_request
from pydantic import ValidationError
from starlette.datastructures import Headers

from app.bootstrap.services import Services
from app.errors import AppError, Invalid
from app.http.admission.checks import TEXT_BODY_BYTES
from app.http.dependencies import readable_run, usable_graphs
from app.http.field_errors import invalid_fields
from app.http.mcp.calls import OpenedCall, answer_request, cancel_call, open_call
from app.http.mcp.client import SESSION, McpClient, new_session, require_short
from app.http.mcp.encoder import CallEncoder, EventId, request_named
from app.http.mcp.errors import TOLD_TO_THE_MODEL, error_json, refusal_json
from app.http.mcp.input import ToolCall
from app.http.mcp.results import Answering, CallAnswer
from app.http.mcp.tasks import RunTasks
from app.http.mcp.tools import CALL, error_result, output_of, result_json, served, tool_name
from app.http.streaming.discarded_entries import without_discarded
from app.http.streaming.pausing import decided_requests
from app.http.streaming.run_streams import RunStreams
from app.requests.principal import Principal
from app.runs.records import RunRecord
from app.runs.requests.posted import Posting

_OK: Final = 200
_ACCEPTED: Final = 202
_BAD_REQUEST: Final = 400
_SERVER_ERROR: Final = 500


@dataclass(frozen=True, slots=True)
class McpExchange:
    """Handles what one HTTP request has; nothing of it is kept."""

    services: Services
    caller: Principal
    posting: Posting
    streams: Callable[[], Awaitable[RunStreams]]
    """Raises `TooManyReaders`."""
    page: str
    """The URL where a person answers what waits."""
    headers: Headers

    async def respond(self, body: Mapping[str, Any]) -> Response:
        """The response to a message; what the server itself cannot do is raised."""
        try:
            message = _message_in(body)
        except ValidationError:
            problem = "The body must be one JSON-RPC message."
            return JSONResponse(error_json(None, INVALID_REQUEST, problem), _BAD_REQUEST)
        if isinstance(message, JSONRPCRequest):
            return await self._answered(message, body)
        client = McpClient.of_notice(self.headers)
        if isinstance(message, JSONRPCNotification):
            await self._notified(client, message)
        else:
            await self._filled_in(client, body)
        return Response(status_code=_ACCEPTED)

    async def resumed(self, last_event_id: str) -> Response:
        """The rest of a stream that broke off; raises `Invalid`, `RunNotFound`, `ScopeMissing`."""
        if (event := EventId.parse(last_event_id)) is None:
            raise Invalid.field("Last-Event-ID", "is not the id of an event of this server")
        record = await readable_run(self.services, self.caller, event.run_id)
        client = McpClient.of_notice(self.headers)
        opened = OpenedCall(record, await decided_requests(self.services, record.key))
        answering = self._answering(client, record, event.message_id, event.token)
        return self._stream(
            await self.streams(),
            opened,
            replace(answering, is_task=event.is_task),
            received=event.position,
            stops_unread=record.stops_unread and not event.is_task,
        )

    async def _answered(self, request: JSONRPCRequest, body: Mapping[str, Any]) -> Response:
        try:
            require_short(request.id, "id")
            client = McpClient.of(body, self.headers)
            if request.method == CALL:
                return await self._refusing(request.id, self._called(client, request))
            if request.method in client.task_methods:
                return await self._refusing(request.id, self._of_task(client, request))
            params = request.params or {}
            result = await served(
                client, request.id, request.method, params, usable_graphs(self.services, self.caller)
            )
        except MCPError as error:
            content = error_json(request.id, error.code, error.message, error.data)
            return self._refused(content)
        except ValidationError as error:
            return self._refused(refusal_json(request.id, invalid_fields(error, body)))
        headers = {SESSION: new_session(params)} if request.method == "initialize" else {}
        return JSONResponse(_response(request.id, result), headers=headers)

    async def _called(self, client: McpClient, request: JSONRPCRequest) -> Response:
        token = progress_token_from_params(request.params)
        require_short(token, "params._meta.progressToken")
        wants_task = client.wants_task(request.params or {})
        try:
            streams = None if wants_task else await self.streams()
            read = partial(self._call_in, client, request)
            call, params = await self.services.offload.run(read, size=self._size)
            opened = await open_call(self.services, self.caller, call, params, self.posting, size=self._size)
        except AppError as error:
            # In revisions with sessions a call for a task has no other result.
            if error.status not in TOLD_TO_THE_MODEL or (wants_task and not client.is_modern):
                raise
            told = result_json(client, error_result(error.detail))
            return JSONResponse(_response(request.id, told))
        answering = self._answering(client, opened.record, request.id, token)
        tasks = RunTasks(self.services, self.caller, client)
        if wants_task and tasks.has(opened.record):
            return JSONResponse(_response(request.id, tasks.created(CallAnswer(opened.record, answering))))
        return self._stream(
            streams or await self.streams(), opened, answering, stops_unread=opened.record.stops_unread
        )

    async def _of_task(self, client: McpClient, request: JSONRPCRequest) -> Response:
        """The response to a request about a task."""
        params, tasks = request.params or {}, RunTasks(self.services, self.caller, client)
        tasks.check(self.headers, params)
        if request.method == "tasks/list":
            return JSONResponse(_response(request.id, await tasks.list(params)))
        record = await tasks.find(params)
        token = progress_token_from_params(params)
        require_short(token, "params._meta.progressToken")
        answering = self._answering(client, record, request.id, token)
        match request.method:
            case "tasks/result":
                opened = OpenedCall(record, await decided_requests(self.services, record.key))
                return self._stream(await self.streams(), opened, replace(answering, is_task=True))
            case "tasks/get":
                result = await tasks.get(record, answering)
            case "tasks/update":
                result = await tasks.update(record, params)
            case _:
                result = await tasks.cancel(record)
        return JSONResponse(_response(request.id, result))

    async def _refusing(self, message_id: RequestId, response: Awaitable[Response]) -> Response:
        try:
            return await response
        except AppError as error:
            if error.status >= _SERVER_ERROR:
                raise
            return self._refused(refusal_json(message_id, error))

    def _call_in(self, client: McpClient, request: JSONRPCRequest) -> tuple[ToolCall, CallToolRequestParams]:
        given = request.params or {}
        validate_client_request(CALL, client.version, given)
        params = CallToolRequestParams.model_validate(given, by_name=False)
        graphs = {tool_name(graph.id): graph for graph in usable_graphs(self.services, self.caller)}
        if (graph := graphs.get(params.name)) is None:
            raise MCPError(INVALID_PARAMS, "params.name: is not a tool that this key may call")
        call = ToolCall.read(
            self.caller,
            graph,
            params.arguments or {},
            given.get("_meta"),
            client=client,
            message_id=request.id,
        )
        return call, params

    def _answering(
        self, client: McpClient, record: RunRecord, message_id: RequestId, token: ProgressToken | None
    ) -> Answering:
        graph = self.services.graphs.find(record.graph_id)
        return Answering(
            *(client, message_id, token),
            may_approve=self.caller.may("runs:approve"),
            page=self.page,
            is_structured=graph is not None and output_of(graph) is not None,
        )

    def _stream(
        self,
        streams: RunStreams,
        opened: OpenedCall,
        answering: Answering,
        *,
        received: int = -1,
        stops_unread: bool = False,
    ) -> Response:
        run = opened.record.key
        encoder = CallEncoder(opened.record, answering, received=received, decided=opened.decided)
        batches = without_discarded(self.services.runs.follow(run))
        return streams.until_pause(self.caller, run, batches, encoder, stops_unread=stops_unread)

    async def _notified(self, client: McpClient, notice: JSONRPCNotification) -> None:
        # Where there are no sessions, a client that cancels disconnects.
        if client.is_modern or notice.method != "notifications/cancelled":
            return
        if (message_id := cancelled_request_id_from_params(notice.params)) is not None:
            await cancel_call(self.services, self.caller, client, message_id)

    async def _filled_in(self, client: McpClient, body: Mapping[str, Any]) -> None:
        """Take the response to a request of ours; one that says that it failed leaves the run waiting."""
        named = None if client.is_modern else request_named(body.get("id"))
        if named is None:
            raise Invalid.field("id", "is not that of a request of this server")
        if "result" in body:
            await answer_request(self.services, self.caller, *named, body["result"])

    @property
    def _size(self) -> int:
        """About how large the message is."""
        return int(self.headers.get("content-length", TEXT_BODY_BYTES))

    def _refused(self, content: dict[str, Any]) -> Response:
        """In the revision without sessions an error has a status of its own."""
        is_modern = McpClient.is_without_sessions(self.headers)
        status = ERROR_CODE_HTTP_STATUS.get(content["error"]["code"], _OK) if is_modern else _OK
        return JSONResponse(content, status)


def _message_in(body: Mapping[str, Any]) -> JSONRPCRequest | JSONRPCNotification | None:
    """What was posted; None for a response."""
    if "method" not in body:
        return None
    kind = JSONRPCRequest if "id" in body else JSONRPCNotification
    return kind.model_validate(body)


def _response(message_id: RequestId, result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message_id, "result": result}
