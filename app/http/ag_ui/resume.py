"""The answers of an AG-UI client to what its agent waits for, and where the run goes on from."""

from collections.abc import Sequence
from dataclasses import dataclass

from ag_ui.core import AssistantMessage, Message, ResumeEntry, UserMessage

from app.bootstrap.services import Services
from app.errors import Invalid
from app.events import PermissionRequest, PermissionResolved, RunStarted, UserMessageDelivered
from app.executors.approvals import PermissionDecided, PermissionNotFound
from app.executors.control import RunEnded
from app.http.ag_ui.input import AgUiInput, answer_of, renamed
from app.http.ag_ui.interrupt import InterruptId
from app.http.ag_ui.stream import RunSegment
from app.ids import RunId, RunKey
from app.principal import Principal
from app.runs.commands.service import Decide
from app.streams.port import LogEntry


@dataclass(frozen=True, slots=True)
class _Given:
    """One answer; `decide` is None for an interrupt that was abandoned."""

    index: int
    request_id: str
    decide: Decide | None


async def resume(services: Services, caller: Principal, graph_id: str, *, posted: AgUiInput) -> RunSegment:
    """Give a run the answers it waits for. The same answers twice are one.

    Raises `ScopeMissing`, `RunNotFound`, `Invalid`, `RunEnded`, `PermissionNotFound`, `PermissionDecided`
    and what giving a command may raise.
    """
    caller.require("runs:approve")
    entries = posted.resume or []
    run_id, after = _goes_on(entries)
    run = RunKey(caller.account_id, run_id)
    given = [_given(index, entry) for index, entry in enumerate(entries)]
    record = await services.runs.get(run)
    caller.require_reading(record.api_key_id)
    if record.state_key != posted.thread_id:
        raise Invalid.field("threadId", "is not the thread of the interrupted run")
    if record.graph_id != graph_id:
        raise Invalid.field("graphId", "is not the graph of the interrupted run")
    said = await services.runs.events(run)
    asked = {event.request_id for event in _asked(said, after)}
    if any(answer.decide is not None and answer.request_id not in asked for answer in given):
        raise RunEnded if record.finished else PermissionNotFound
    _require_all(InterruptId(run_id, after, ""), said, answered={answer.request_id for answer in given})
    _require_nothing_new(posted.messages, said, after)
    resolved = _resolved(said)
    for answer in given:
        if (done := resolved.get(answer.request_id)) is not None:
            _require_agreement(answer, done)
        elif answer.request_id in asked:
            await _give(services, run, answer)
    # Of a run whose process died only the end may be left, in other positions.
    is_left = bool(said) and said[-1].position >= after
    return RunSegment(run, after if is_left else 0, said)


def _goes_on(entries: Sequence[ResumeEntry]) -> tuple[RunId, int]:
    """The run the answers are for, and how far their client has heard it."""
    named = set[tuple[str, int]]()
    for index, entry in enumerate(entries):
        if (interrupt := InterruptId.read(entry.interrupt_id)) is None:
            field = f"resume.{index}.interruptId"
            raise Invalid.field(field, "is not the id of an interrupt of this server")
        named.add((interrupt.run_id, interrupt.position))
    if len(named) != 1:
        raise Invalid.field("resume", "must answer the interrupts of one run, as its last end named them")
    run_id, position = named.pop()
    return RunId(run_id), position


def _given(index: int, entry: ResumeEntry) -> _Given:
    request_id = entry.interrupt_id.rpartition("/")[2]
    if entry.status == "cancelled":
        return _Given(index, request_id, None)
    answer = answer_of(index, entry.payload)
    decide = Decide(
        request_id=request_id,
        decision="allow" if answer.approved else "deny",
        args=answer.edited_args,
        message=answer.message,
    )
    return _Given(index, request_id, decide)


def _asked(said: Sequence[LogEntry], up_to: int) -> list[PermissionRequest]:
    return [event for position, event in said if isinstance(event, PermissionRequest) and position <= up_to]


def _resolved(said: Sequence[LogEntry]) -> dict[str, PermissionResolved]:
    return {event.request_id: event for _, event in said if isinstance(event, PermissionResolved)}


def _require_all(heard: InterruptId, said: Sequence[LogEntry], *, answered: set[str]) -> None:
    """Raise `Invalid` unless all is answered that a client has been asked and that is still open."""
    # What an attempt has asked that was cut off, nobody waits for.
    begun = max((position for position, event in said if isinstance(event, RunStarted)), default=0)
    asked = _asked([entry for entry in said if entry.position > begun], heard.position)
    settled = answered | _resolved(said).keys()
    for request in asked:
        if request.request_id not in settled:
            missing = heard._replace(request_id=request.request_id)
            raise Invalid.field("resume", f"must answer {missing} too")


def _require_nothing_new(messages: Sequence[Message], said: Sequence[LogEntry], after: int) -> None:
    """Raise `Invalid` where the user has said something to the run that waits: it would go unheard."""
    asked = {event.tool_call_id for event in _asked(said, after)}
    taken = {event.message_id for _, event in said if isinstance(event, UserMessageDelivered)}
    since = False
    for index, message in enumerate(messages):
        match message:
            case AssistantMessage(tool_calls=list(calls)):
                since = since or any(call.id in asked for call in calls)
            case UserMessage(id=message_id) if since and message_id not in taken:
                field = f"messages.{index}"
                raise Invalid.field(field, "must wait: this run goes on with the answers only")
            case _:
                continue


async def _give(services: Services, run: RunKey, answer: _Given) -> None:
    deny = Decide(request_id=answer.request_id, decision="deny")
    try:
        await services.commands.submit(run, answer.decide or deny)
    except (PermissionDecided, PermissionNotFound, RunEnded):
        if answer.decide is not None:
            raise
        # An abandoned one asks for nothing but to go on.
    except Invalid as error:
        place = f"resume.{answer.index}.payload.editedArgs"
        raise renamed(error.errors, lambda field: place + field.removeprefix("args")) from error


def _require_agreement(answer: _Given, done: PermissionResolved) -> None:
    """Raise `PermissionDecided` where something else was decided; an abandoned one takes it as it is."""
    wanted = answer.decide
    if wanted is None or (wanted.decision, wanted.args) == (done.decision, done.args):
        return
    if done.reason == "decided":
        raise PermissionDecided
    message = "Nobody decided about this tool call in time; it was denied. Cancel to go on."
    raise PermissionDecided(message)
