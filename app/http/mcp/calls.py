"""Starting the run of a call, or continuing one; the answers and cancellations of clients."""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from mcp_types import CallToolRequestParams, ElicitResult, RequestId

from app.bootstrap.services import Services
from app.errors import Invalid
from app.events import PermissionRequest
from app.executors.inbox import RunEnded
from app.executors.waiting.questions import QuestionAnswered, QuestionNotFound
from app.executors.waiting.records import PermissionDecided, PermissionNotFound
from app.http.dependencies import readable_run
from app.http.field_errors import rename_fields
from app.http.mcp.client import McpClient
from app.http.mcp.forms import Asked, command_of
from app.http.mcp.input import ToolCall, key_of_request, parsed, posted_field
from app.http.streaming.pausing import asked_in, decided_requests
from app.ids import RunKey
from app.requests.principal import Principal
from app.runs.commands.service import RunNotFound
from app.runs.records import RunRecord
from app.runs.requests.posted import Posting
from app.runs.service import run_of_key

ANOTHER_COUNTS = (PermissionDecided, PermissionNotFound, QuestionAnswered, QuestionNotFound, RunEnded)
"""Why an answer has no effect: what follows in the run shows what had."""


class OpenedCall(NamedTuple):
    """The run of a call, and what of it needs no person any more."""

    record: RunRecord
    decided: frozenset[str] = frozenset()


async def open_call(
    services: Services,
    caller: Principal,
    call: ToolCall,
    params: CallToolRequestParams,
    posting: Posting,
    *,
    size: int,
) -> OpenedCall:
    """Start the run, or continue the one that the call names; `size` is about that of its message.

    Raises what `RunService.start` raises, and `RunNotFound`, `RunDeleted`, `ScopeMissing`, `Invalid`.
    """
    if params.request_state is not None:
        record = await _run_of_graph(services, caller, params.request_state, call, "params.requestState")
        answered = await _answer_all(services, caller, record.key, params.input_responses or {})
        return OpenedCall(record, answered | await decided_requests(services, record.key))
    if call.run_id is not None:
        record = await _run_of_graph(services, caller, call.run_id, call, "params.arguments.conversation")
        return OpenedCall(record, await decided_requests(services, record.key))
    keyed = Posting(**{**posting, "idempotency_key": call.key})
    try:
        request = await services.offload.run(partial(call.request, caller), size=size)
        return OpenedCall(await services.runs.start(caller, request, **keyed))
    except Invalid as error:
        raise rename_fields(error.errors, posted_field) from error


async def answer_request(
    services: Services, caller: Principal, run_id: str, request_id: str, result: object
) -> None:
    """Apply what a client's user has filled in, to the run that asked for it, wherever that is executed."""
    record = await readable_run(services, caller, run_id)
    given = parsed(ElicitResult, result, "result.")
    asked = await _asked(services, record.key)
    if request_id not in asked:
        raise PermissionNotFound
    await _submit(services, caller, record.key, asked[request_id], given, "result.content")


async def answer_task(
    services: Services, caller: Principal, run: RunKey, responses: Mapping[str, object]
) -> None:
    """Apply what a client's user has filled in of what a task asks; what it does not ask has no effect."""
    asked = await _asked(services, run)
    for request_id in responses.keys() & asked.keys():
        field = f"params.inputResponses.{request_id}"
        given = parsed(ElicitResult, responses[request_id], f"{field}.")
        await _submit(services, caller, run, asked[request_id], given, f"{field}.content")


async def cancel_call(
    services: Services, caller: Principal, client: McpClient, message_id: RequestId
) -> None:
    """Cancel the run of a request of the client's session; one that has ended is not changed."""
    if (key := key_of_request(caller, client, message_id)) is None:
        return
    run = RunKey(caller.account_id, run_of_key(caller, key))
    with suppress(RunNotFound):
        await services.commands.stop(run, "cancel")


async def _run_of_graph(
    services: Services, caller: Principal, run_id: str, call: ToolCall, field: str
) -> RunRecord:
    record = await readable_run(services, caller, run_id)
    if record.graph_id != call.graph.id:
        raise Invalid.field(field, "is a run of another tool")
    return record


async def _asked(services: Services, run: RunKey) -> dict[str, Asked]:
    asked = asked_in(await services.runs.events(run))
    return {name: each for name, each in asked.items() if isinstance(each, Asked)}


async def _answer_all(
    services: Services, caller: Principal, run: RunKey, given: Mapping[str, object]
) -> frozenset[str]:
    """Apply the answers that a call is sent again with; returns the requests that they answer."""
    asked = await _asked(services, run) if given else {}
    for request_id, response in given.items():
        field = f"params.inputResponses.{request_id[:100]}"
        if request_id not in asked or not isinstance(response, ElicitResult):
            raise Invalid.field(field, "is not an answer to what this run asks")
        await _submit(services, caller, run, asked[request_id], response, f"{field}.content")
    return frozenset(given)


async def _submit(
    services: Services, caller: Principal, run: RunKey, asked: Asked, given: ElicitResult, field: str
) -> None:
    if isinstance(asked, PermissionRequest):
        caller.require("runs:approve")
    try:
        with suppress(*ANOTHER_COUNTS):
            await services.commands.submit(run, command_of(asked, given))
    except Invalid as error:
        raise rename_fields(error.errors, lambda name: f"{field}.{name.removeprefix('answers.')}") from error
