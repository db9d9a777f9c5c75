"""Resuming an AG-UI run: applies a client's decisions to the interrupted run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ag_ui.core import AssistantMessage, Message, ResumeEntry, UserMessage

from app.bootstrap.services import Services
from app.errors import Invalid
from app.events import PermissionResolved, QuestionAsked, QuestionResolved, RunStarted, UserMessageDelivered
from app.executors.inbox import RunEnded
from app.executors.waiting.questions import QuestionAnswered, QuestionNotFound, given_answers
from app.executors.waiting.records import PermissionDecided, PermissionNotFound
from app.http.ag_ui.input import ANSWERS, DECISION, AgUiInput, parse_payload
from app.http.ag_ui.interrupt import InterruptId, PersonRequest
from app.http.ag_ui.segment import RunSegment
from app.http.field_errors import rename_fields
from app.ids import RunId, RunKey
from app.requests.principal import Principal
from app.runs.commands.records import AnswerQuestion, Decide
from app.streams.port import LogEntry

_NOT_DECIDED = (
    "There was no decision on this tool call in time, so it was denied. Cancel the interrupt to continue."
)


@dataclass(frozen=True, slots=True)
class AnswerToInterrupt:
    """One entry of `resume`; `command` is None for a cancelled interrupt."""

    index: int
    request_id: str
    command: Decide | AnswerQuestion | None


async def resume_segment(
    services: Services, caller: Principal, graph_id: str, *, posted: AgUiInput
) -> RunSegment | None:
    """Apply the posted decisions; repeating the same decisions has no further effect.

    None if all interrupts are cancelled and the user has written a new message, which a run of its own
    answers: their person has moved on.

    Raises `ScopeMissing`, `RunNotFound`, `Invalid`, `RunEnded`, `PermissionNotFound`, `PermissionDecided`
    the same for questions, and the errors of `RunCommands`.
    """
    entries = posted.resume or []
    run_id, after = _interrupted_run(entries)
    run = RunKey(caller.account_id, run_id)
    record = await services.runs.get(run)
    caller.require_reading(record.api_key_id, record.labels.end_user)
    if record.state_key != posted.thread_id:
        raise Invalid.field("threadId", "is not the thread of the interrupted run")
    if record.graph_id != graph_id:
        raise Invalid.field("graphId", "is not the graph of the interrupted run")
    log = await services.runs.events(run, apart=after)
    requested = {event.request_id: event for event in _requests(log, after)}
    answers = [_parse_entry(index, entry, requested, caller) for index, entry in enumerate(entries)]
    if not all(isinstance(requested.get(answer.request_id), QuestionAsked) for answer in answers):
        caller.require("runs:approve")
    if any(answer.command is not None and answer.request_id not in requested for answer in answers):
        raise RunEnded if record.finished else PermissionNotFound
    _require_all_answered(
        InterruptId(run_id, after, ""), log, answered={answer.request_id for answer in answers}
    )
    if _has_moved_on(posted.messages, log, after, answers=answers):
        return None
    await _apply(services, run, distinct_answers(answers), requested=requested, resolved=_resolved(log))
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


def _parse_entry(
    index: int, entry: ResumeEntry, requested: Mapping[str, PersonRequest], caller: Principal
) -> AnswerToInterrupt:
    request_id = entry.interrupt_id.rpartition("/")[2]
    if entry.status == "cancelled":
        return AnswerToInterrupt(index, request_id, None)
    if isinstance(requested.get(request_id), QuestionAsked):
        answers = parse_payload(index, entry.payload, ANSWERS).answers
        return AnswerToInterrupt(index, request_id, AnswerQuestion(request_id=request_id, answers=answers))
    answer = parse_payload(index, entry.payload, DECISION)
    decide = Decide(
        request_id=request_id,
        decision="allow" if answer.approved else "deny",
        args=answer.edited_args,
        message=answer.message,
        stop=answer.stop,
        grant_by=caller.api_key_id if answer.for_conversation else None,
    )
    return AnswerToInterrupt(index, request_id, decide)


def distinct_answers(answers: Sequence[AnswerToInterrupt]) -> Iterator[AnswerToInterrupt]:
    """The answers without repetitions: a command for each of thousands of equal ones would take minutes."""
    first: dict[str, AnswerToInterrupt] = {}
    for answer in answers:
        known = first.setdefault(answer.request_id, answer)
        if known is answer or answer.command not in (None, known.command):
            yield answer


def _requests(log: Sequence[LogEntry], up_to: int) -> list[PersonRequest]:
    return [event for position, event, _ in log if isinstance(event, PersonRequest) and position <= up_to]


def _resolved(log: Sequence[LogEntry]) -> dict[str, PermissionResolved | QuestionResolved]:
    return {
        event.request_id: event
        for _, event, _ in log
        if isinstance(event, PermissionResolved | QuestionResolved)
    }


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
    if any(answer.command is not None for answer in answers):
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


async def _apply(
    services: Services,
    run: RunKey,
    answers: Iterable[AnswerToInterrupt],
    *,
    requested: Mapping[str, PersonRequest],
    resolved: Mapping[str, PermissionResolved | QuestionResolved],
) -> None:
    for answer in answers:
        asked = requested.get(answer.request_id)
        if (resolution := resolved.get(answer.request_id)) is not None:
            _require_same_answer(answer, asked, resolution)
        elif asked is not None:
            await _submit(services, run, answer, asked)


async def _submit(services: Services, run: RunKey, answer: AnswerToInterrupt, asked: PersonRequest) -> None:
    refused = (
        AnswerQuestion(request_id=asked.request_id, answers=None)
        if isinstance(asked, QuestionAsked)
        else Decide(request_id=asked.request_id, decision="deny")
    )
    try:
        await services.commands.submit(run, answer.command or refused)
    except (PermissionDecided, PermissionNotFound, QuestionAnswered, QuestionNotFound, RunEnded):
        if answer.command is not None:
            raise
        # A cancelled interrupt only requests that the run continues.
    except Invalid as error:
        raise rename_fields(error.errors, partial(_posted_field, answer.index)) from error


def _posted_field(index: int, field: str) -> str:
    """Where the client has posted a field of a command."""
    payload = f"resume.{index}.payload"
    return (
        f"{payload}.editedArgs{field.removeprefix('args')}"
        if field.startswith("args")
        else f"{payload}.{field}"
    )


def _require_same_answer(
    answer: AnswerToInterrupt,
    asked: PersonRequest | None,
    resolution: PermissionResolved | QuestionResolved,
) -> None:
    """Raise `PermissionDecided` or `QuestionAnswered` if another one counts; a cancelled one accepts any."""
    match answer.command, asked, resolution:
        case None, _, _:
            return
        case AnswerQuestion(answers=posted), QuestionAsked(questions=questions), QuestionResolved():
            given = None if posted is None else given_answers(questions, posted)
            if resolution.resolved_by not in {"answered", "declined"} or given != resolution.answers:
                raise QuestionAnswered
        case Decide() as decide, _, PermissionResolved():
            allowed = resolution.decision != "deny"
            if (decide.decision == "allow", decide.args) != (allowed, resolution.args):
                is_decided = resolution.reason in {"decided", "granted"}
                raise PermissionDecided(None if is_decided else _NOT_DECIDED)
