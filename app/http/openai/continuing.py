"""Continuing a run: with results of its calls, decisions about them, or after a person has answered."""

from collections.abc import Collection, Iterable

from app.bootstrap.services import Services
from app.errors import Invalid
from app.executors.client_calls import ClientToolResult
from app.executors.waiting.records import PermissionNotFound
from app.http.dependencies import readable_run
from app.http.openai.answer import Received
from app.http.openai.mapper import run_of_call
from app.http.openai.notice import Notice
from app.http.openai.posted import PostedChat
from app.http.streaming.pausing import asked_in, waiting_calls
from app.requests.principal import Principal
from app.runs.commands.records import Decide
from app.runs.commands.service import RunNotFound
from app.runs.records import RunRecord
from app.runs.stateless.service import chat_of
from app.streams.port import LogEntry


async def continue_run(
    services: Services, caller: Principal, body: PostedChat, waiting: Notice | None
) -> tuple[RunRecord, Received] | None:
    """The run that a posted chat continues, and what its client has of it; None if it starts one.

    `waiting`: where the chat's last answer has ended, if that was for a person. Raises `RunNotFound`,
    `RunDeleted`, `ScopeMissing`, `PermissionNotFound`, `ClientToolCallAnswered`, `Invalid`.
    """
    if body.results or body.decisions:
        return await _answer(services, caller, body)
    if waiting is not None and body.posted and body.posted[-1].role == "user":
        record = await run_of_graph(services, caller, waiting.run_id, body.model)
        return record, await received_up_to(services, record, waiting.position)
    return None


async def received_up_to(services: Services, record: RunRecord, position: int) -> Received:
    """What a client has that has received a run up to there: what still waits ends its response again."""
    entries = await services.runs.events(record.key)
    return received_in(entries, position, waits=await waiting_calls(services, record.key))


def received_in(entries: Iterable[LogEntry], position: int, *, waits: Collection[str]) -> Received:
    """The same for a run with these entries; `waits`: the calls and requests that have no answer."""
    asked = asked_in(entry for entry in entries if entry.position <= position)
    return Received(position, frozenset(asked.keys() - set(waits)))


async def run_of_graph(services: Services, caller: Principal, run_id: str, graph_id: str) -> RunRecord:
    """A run that the caller may read; raises `RunNotFound` for one of another graph, too."""
    record = await readable_run(services, caller, run_id)
    if record.graph_id != graph_id:
        raise RunNotFound
    return record


async def _answer(services: Services, caller: Principal, body: PostedChat) -> tuple[RunRecord, Received]:
    """Pass results of client tools and decisions on to the run that waits for them."""
    calls = {run_of_call(name): result for name, result in body.results.items()}
    run_ids = {run_id for run_id, _ in calls} | {run_id for run_id, _ in body.decisions}
    if len(run_ids) != 1:
        field = body.field_of(len(body.posted) - 1, body.id_of_call)
        raise Invalid.field(field, "must be that of a call of the same answer as those before it")
    record = await run_of_graph(services, caller, run_ids.pop(), body.model)
    after = await _decide(services, caller, record, [decision for _, decision in body.decisions])
    decided = frozenset(decision.request_id for _, decision in body.decisions)
    results = {call_id: ClientToolResult(result) for (_, call_id), result in calls.items()}
    if not results:
        return record, Received(after, decided)
    answered = await services.client_tools.find_in(caller, chat_of(record), record.key, call_ids=results)
    if answered is None:
        raise RunNotFound
    last = {call_id for _, call_id in map(run_of_call, body.last_results)}
    await services.client_tools.answer(answered, results, last=last)
    return record, Received(max(after, answered.after), decided | answered.calls)


async def _decide(services: Services, caller: Principal, record: RunRecord, decisions: list[Decide]) -> int:
    """Apply what a person has decided; the position of the last of these requests."""
    if not decisions:
        return 0
    caller.require("runs:approve")
    decided = await services.chats.decide(caller, chat_of(record), record.key, decisions=decisions)
    if not decided.after:
        raise PermissionNotFound
    return decided.after
