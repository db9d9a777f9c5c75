"""Continuing a run: its client posts the results of its calls, or a message after a person has answered."""

from app.bootstrap.services import Services
from app.errors import Invalid
from app.executors.client_calls import ClientToolResult
from app.http.dependencies import run_key
from app.http.openai.answer import Received
from app.http.openai.input import ChatCompletionRequest
from app.http.openai.mapper import run_of_call
from app.http.openai.notice import Notice
from app.http.streaming.pausing import decided_requests
from app.requests.principal import Principal
from app.runs.commands.service import RunNotFound
from app.runs.records import RunRecord
from app.runs.stateless.service import chat_of


async def continue_run(
    services: Services, caller: Principal, body: ChatCompletionRequest
) -> tuple[RunRecord, Received] | None:
    """The run that a posted chat continues, and what its client has of it; None if it starts one.

    Raises `RunNotFound`, `RunDeleted`, `ScopeMissing`, `Invalid`.
    """
    history, last = body.history, body.messages[-1]
    if last.role == "tool":
        return await _answer(services, caller, body)
    if last.role == "user" and history.waiting is not None:
        return await _after_person(services, caller, body, history.waiting)
    return None


async def _answer(
    services: Services, caller: Principal, body: ChatCompletionRequest
) -> tuple[RunRecord, Received]:
    """Return the results of client tools to the run that waits for them."""
    calls = {run_of_call(name): result for name, result in body.history.results.items()}
    run_ids = {run_id for run_id, _ in calls}
    if len(run_ids) != 1:
        field = f"messages.{len(body.messages) - 1}.tool_call_id"
        raise Invalid.field(field, "must be that of a call of the same answer as those before it")
    record = await _run_of_graph(services, caller, run_ids.pop(), body.model)
    results = {call_id: ClientToolResult(result) for (_, call_id), result in calls.items()}
    answered = await services.client_tools.find_in(caller, chat_of(record), record.key, call_ids=results)
    if answered is None:
        raise RunNotFound
    await services.client_tools.answer(answered, results)
    return record, Received(answered.after, answered=answered.calls)


async def _after_person(
    services: Services, caller: Principal, body: ChatCompletionRequest, waiting: Notice
) -> tuple[RunRecord, Received]:
    """Go on where a run has waited; what still waits ends the response again."""
    record = await _run_of_graph(services, caller, waiting.run_id, body.model)
    decided = await decided_requests(services, record.key)
    return record, Received(waiting.position, decided=decided)


async def _run_of_graph(services: Services, caller: Principal, run_id: str, graph_id: str) -> RunRecord:
    record = await services.runs.get_with_contents(run_key(caller, run_id))
    caller.require_reading(record.api_key_id, record.labels.end_user)
    if record.graph_id != graph_id:
        raise RunNotFound
    return record
