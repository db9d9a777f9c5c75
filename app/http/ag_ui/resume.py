"""Resuming an AG-UI run: applies a client's decisions to the interrupted run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ag_ui.core import AssistantMessage, Message, ResumeEntry, UserMessage

from app.bootstrap.services import Services
from app.errors import Invalid
from app.events import PermissionRequest, PermissionResolved, RunStarted, UserMessageDelivered
from app.executors.approvals import PermissionDecided, PermissionNotFound
from app.executors.inbox import RunEnded
from app.http.ag_ui.input import AgUiInput, parse_answer, rename_fields
from app.http.ag_ui.interrupt import InterruptId
from app.http.ag_ui.segment import RunSegment
from app.ids import RunId, RunKey
from app.requests.principal import Principal
from app.runs.commands.records import Decide
from app.streams.port import LogEntry


@dataclass(frozen=True, slots=True)
class AnswerToInterrupt:
    """One entry of `resume`; `decide` is None for a cancelled interrupt."""

    index: int
    request_id: str
    decide: Decide | None


async def resume_segment(
    services: Services, caller: Principal, graph_id: str, *, posted: AgUiInput
) -> RunSegment | None:
    """Apply the posted decisions; repeating the same decisions has no further effect.

    None if all interrupts are cancelled and the user has written a new message, which a run of its own
    answers: their person has moved on.

    Raises `ScopeMissing`, `RunNotFound`, `Invalid`, `RunEnded`, `PermissionNotFound`, `PermissionDecided`
    and the errors of `RunCommands`.
    """
    caller.require("runs:approve")
    entries = posted.resume or []
    run_id, after = _interrupted_run(entries)
    run = RunKey(caller.account_id, run_id)
    answers = [_parse_entry(index, entry) for index, entry in enumerate(entries)]
    record = await services.runs.get(run)
    caller.require_reading(record.api_key_id)
    if record.state_key != posted.thread_id:
        raise Invalid.field("threadId", "is not the thread of the interrupted run")
    if record.graph_id != graph_id:
        raise Invalid.field("graphId", "is not the graph of the interrupted run")
    log = await services.runs.events(run)
    requested = {event.request_id for event in _requests(log, after)}
    if any(answer.decide is not None and answer.request_id not in requested for answer in answers):
        raise RunEnded if record.finished else PermissionNotFound
    _require_all_answered(
        InterruptId(run_id, after, ""), log, answered={answer.request_id for answer in answers}
    )
    if _has_moved_on(posted.messages, log, after, answers=answers):
        return None
    resolved = _resolved(log)
    for answer in distinct_answers(answers):
        if (resolution := resolved.get(answer.request_id)) is not None:
            _require_same_decision(answer, resolution)
        elif answer.request_id in requested:
            await _decide(services, run, answer)
    # After a crash, possibly only the end of the run is left, at lower positions.
    is_complete = bool(log) and log[-1].position >= after
    return RunSegment(run, after if is_complete else 0, log, stops_unread=record.stops_unread)


def _interrupted_run(entries: Sequence[ResumeEntry]) -> tuple[RunId, int]:
    """The run that the entries belong to, and the last position its client has received."""
    named = set[tuple[str, int]]()
    for index, entry in enumerate(entries):
        if (interrupt := InterruptId.parse(entry.interrupt_id)) is None:
            field = f"resume.{index}.interruptId"
            raise Invalid.field(field, "is not the id of an interrupt of this server")
        named.add((interrupt.run_id, interrupt.position))
    if len(named) != 1:
        raise Invalid.field("resume", "must answer the interrupts of one run, as its last end named them")
    run_id, position = named.pop()
    return RunId(run_id), position


def _parse_entry(index: int, entry: ResumeEntry) -> AnswerToInterrupt:
    request_id = entry.interrupt_id.rpartition("/")[2]
    if entry.status == "cancelled":
        return AnswerToInterrupt(index, request_id, None)
    answer = parse_answer(index, entry.payload)
    decide = Decide(
        request_id=request_id,
        decision="allow" if answer.approved else "deny",
        args=answer.edited_args,
        message=answer.message,
        stop=answer.stop,
    )
    return AnswerToInterrupt(index, request_id, decide)


def distinct_answers(answers: Sequence[AnswerToInterrupt]) -> Iterator[AnswerToInterrupt]:
    """The answers without repetitions: a command for each of thousands of equal ones would take minutes."""
    first: dict[str, AnswerToInterrupt] = {}
    for answer in answers:
        known = first.setdefault(answer.request_id, answer)
        if known is answer or answer.decide not in (None, known.decide):
            yield answer


def _requests(log: Sequence[LogEntry], up_to: int) -> list[PermissionRequest]:
    return [event for position, event, _ in log if isinstance(event, PermissionRequest) and position <= up_to]


def _resolved(log: Sequence[LogEntry]) -> dict[str, PermissionResolved]:
    return {event.request_id: event for _, event, _ in log if isinstance(event, PermissionResolved)}


def _require_all_answered(last: InterruptId, log: Sequence[LogEntry], *, answered: set[str]) -> None:
    """Raise `Invalid` unless every request that the client knows is answered or resolved."""
    # Requests of an earlier attempt are discarded.
    attempt_start = max((position for position, event, _ in log if isinstance(event, RunStarted)), default=0)
    requests = _requests([entry for entry in log if entry.position > attempt_start], last.position)
    resolved = answered | _resolved(log).keys()
    for request in requests:
        if request.request_id not in resolved:
            missing = last._replace(request_id=request.request_id)
            raise Invalid.field("resume", f"must answer {missing} too")


def _has_moved_on(
    messages: Sequence[Message], log: Sequence[LogEntry], after: int, *, answers: Sequence[AnswerToInterrupt]
) -> bool:
    """Whether there is a new message instead of decisions; raises `Invalid` if there are both."""
    if (index := _new_message(messages, log, after)) is None:
        return False
    if any(answer.decide is not None for answer in answers):
        field = f"messages.{index}"
        raise Invalid.field(field, "must wait: this run resumes with decisions only")
    return True


def _new_message(messages: Sequence[Message], log: Sequence[LogEntry], after: int) -> int | None:
    """The index of the first message that the user has written since: a resumed run does not receive it."""
    pending_calls = {event.tool_call_id for event in _requests(log, after)}
    taken = {event.message_id for _, event, _ in log if isinstance(event, UserMessageDelivered)}
    after_call = False
    for index, message in enumerate(messages):
        match message:
            case AssistantMessage(tool_calls=list(calls)):
                after_call = after_call or any(call.id in pending_calls for call in calls)
            case UserMessage(id=message_id) if after_call and message_id not in taken:
                return index
            case _:
                continue
    return None


async def _decide(services: Services, run: RunKey, answer: AnswerToInterrupt) -> None:
    deny = Decide(request_id=answer.request_id, decision="deny")
    try:
        await services.commands.submit(run, answer.decide or deny)
    except (PermissionDecided, PermissionNotFound, RunEnded):
        if answer.decide is not None:
            raise
        # A cancelled interrupt only requests that the run continues.
    except Invalid as error:
        path = f"resume.{answer.index}.payload.editedArgs"
        raise rename_fields(error.errors, lambda field: path + field.removeprefix("args")) from error


def _require_same_decision(answer: AnswerToInterrupt, resolution: PermissionResolved) -> None:
    """Raise `PermissionDecided` if the decision was different; a cancelled interrupt accepts any."""
    decide = answer.decide
    if decide is None or (decide.decision, decide.args) == (resolution.decision, resolution.args):
        return
    if resolution.reason == "decided":
        raise PermissionDecided
    raise PermissionDecided(
        "There was no decision on this tool call in time, so it was denied. Cancel the interrupt to continue."
    )
