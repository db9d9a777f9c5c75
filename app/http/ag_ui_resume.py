"""The answers of an AG-UI client to what its agent waits for, and where the run goes on from."""

from collections.abc import Container, Sequence
from dataclasses import dataclass

from ag_ui.core import AssistantMessage, Message, ResumeEntry, UserMessage

from app.bootstrap.services import Services
from app.errors import Invalid
from app.events import PermissionRequest, PermissionResolved, UserMessageTaken
from app.executors.approvals import PermissionDecided, PermissionNotFound
from app.executors.control import RunEnded
from app.http.ag_ui_input import AgUiInput, answer_of, renamed
from app.http.ag_ui_stream import Stretch
from app.http.encoders.ag_ui_interrupt import InterruptId
from app.ids import AccountId, RunId, RunKey
from app.runs.commands import Decide
from app.streams.port import LogEntry


@dataclass(frozen=True, slots=True)
class _Given:
    """One answer; `decide` is None for an interrupt that was abandoned."""

    index: int
    request_id: str
    decide: Decide | None


async def resume(services: Services, account_id: AccountId, graph_id: str, *, posted: AgUiInput) -> Stretch:
    """Give a run the answers it waits for. The same answers twice are one.

    Raises `RunNotFound`, `Invalid`, `RunEnded`, `PermissionNotFound`, `PermissionDecided` and what
    giving a command may raise.
    """
    entries = posted.resume or []
    run_id, after = _goes_on(entries)
    run = RunKey(account_id, run_id)
    given = [_given(index, entry) for index, entry in enumerate(entries)]
    record = await services.runs.get(run)
    if record.state_key != posted.thread_id:
        raise Invalid.field("threadId", "is not the thread of the interrupted run")
    if record.graph_id != graph_id:
        raise Invalid.field("graphId", "is not the graph of the interrupted run")
    said = await services.runs.said(run)
    if record.finished and not any(isinstance(event, PermissionRequest) for _, event in said):
        # Its process died: of what was said nothing but the end is left.
        if any(answer.decide for answer in given):
            raise RunEnded
        return Stretch(run, 0, said)
    heard = [entry for entry in said if entry.position <= after]
    resolved = {event.request_id: event for _, event in said if isinstance(event, PermissionResolved)}
    _require_all(run, heard, after, answered={answer.request_id for answer in given}, resolved=resolved)
    _require_nothing_new(posted.messages, said, after)
    for answer in given:
        if (done := resolved.get(answer.request_id)) is None:
            await _give(services, run, answer)
        elif answer.decide is not None and not _agrees(answer.decide, done):
            raise _decided(done)
    return Stretch(run, after, said)


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


def _require_all(
    run: RunKey,
    heard: Sequence[LogEntry],
    after: int,
    *,
    answered: set[str],
    resolved: Container[str],
) -> None:
    """Raise unless they answer what was asked, and all of it that is still open."""
    asked = {event.request_id for _, event in heard if isinstance(event, PermissionRequest)}
    if not answered <= asked:
        raise PermissionNotFound
    for request_id in sorted(asked - answered):
        if request_id not in resolved:
            missing = InterruptId(run.run_id, after, request_id)
            raise Invalid.field("resume", f"must answer {missing} too")


def _require_nothing_new(messages: Sequence[Message], said: Sequence[LogEntry], after: int) -> None:
    """Raise `Invalid` where the user has said something to the run that waits: it would go unheard."""
    asked = {
        event.tool_call_id
        for position, event in said
        if isinstance(event, PermissionRequest) and position <= after
    }
    taken = {event.message_id for _, event in said if isinstance(event, UserMessageTaken)}
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
        await services.commands.give(run, answer.decide or deny)
    except (PermissionDecided, RunEnded):
        if answer.decide is not None:
            raise
        # An abandoned one asks for nothing but to go on.
    except Invalid as error:
        place = f"resume.{answer.index}.payload.editedArgs"
        raise renamed(error.errors, lambda field: place + field.removeprefix("args")) from error


def _agrees(wanted: Decide, resolved: PermissionResolved) -> bool:
    return (wanted.decision, wanted.args) == (resolved.decision, resolved.args)


def _decided(resolved: PermissionResolved) -> PermissionDecided:
    if resolved.reason == "decided":
        return PermissionDecided()
    return PermissionDecided("Nobody decided about this tool call in time; it was denied. Cancel to go on.")
