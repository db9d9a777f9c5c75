"""Events that a client sends to a session: each is a message or a command to one of its runs."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias

from pydantic import TypeAdapter, ValidationError

from app.bootstrap.services import Services
from app.errors import Invalid
from app.events import ClientEvent, ClientToolCall, PermissionRequest, QuestionAsked, ToolCallStart
from app.http.managed_agents import ids
from app.http.managed_agents.input import (
    MOST_EVENTS,
    CustomToolResult,
    PostedEvent,
    ToolConfirmation,
    UserInterrupt,
    UserMessage,
)
from app.http.managed_agents.mapper import Event
from app.ids import RunId, RunKey
from app.requests.messages import ContentPart
from app.requests.principal import Principal
from app.runs.commands.records import AnswerQuestion, Command, Decide, SubmitToolResult
from app.runs.managed.records import ManagedSession
from app.runs.requests.posted import Posting, part_of
from app.runs.service import id_of_key
from app.streams.port import LogEntry

_Apply: TypeAlias = Callable[[], Awaitable[str]]
"""Applies an event and returns its id."""

_ANSWERS: TypeAdapter[dict[str, str | list[str]]] = TypeAdapter(dict[str, str | list[str]])


async def send_events(
    services: Services,
    caller: Principal,
    session: ManagedSession,
    events: Sequence[PostedEvent],
    posting: Posting,
) -> list[Event]:
    """Apply the events in order; nothing is applied if one of them is not valid.

    Of a request that is repeated with its `Idempotency-Key`, messages take effect once, and so do the
    interruptions before them. Raises `Invalid` naming the field, `ScopeMissing`, and what messages and
    commands raise.
    """
    sender = _Sender(services, caller, session, posting)
    said = [index for index, event in enumerate(events) if await sender.has_said(index, event)]
    applied = [
        await sender.prepare(index, event, is_repeated=index < max(said, default=0))
        for index, event in enumerate(events)
    ]
    sent = []
    for event, apply in zip(events, applied, strict=True):
        fields = event.model_dump(mode="json", exclude_none=True)
        sent.append({**fields, "id": await apply(), "processed_at": None})
    return sent


class _Sender:
    def __init__(
        self, services: Services, caller: Principal, session: ManagedSession, posting: Posting
    ) -> None:
        self._services = services
        self._caller = caller
        self._session = session
        self._posting = posting

    async def has_said(self, index: int, event: PostedEvent) -> bool:
        """Whether it is a message that the same request has sent before."""
        posting = part_of(self._posting, index)
        return isinstance(event, UserMessage) and (
            await self._services.managed.said_before(self._caller, self._session.id, **posting) is not None
        )

    async def prepare(self, index: int, event: PostedEvent, *, is_repeated: bool) -> _Apply:
        """What applies an event; raises `Invalid` and `ScopeMissing`."""
        field = f"events.{index}"
        match event:
            case UserMessage():
                read = partial(event.ours, field, self._services.attachments)
                content = await self._services.offload.run(read, size=event.chars)
                return partial(self._say, content, part_of(self._posting, index))
            case UserInterrupt():
                return partial(self._interrupt, is_repeated=is_repeated)
            case ToolConfirmation():
                self._caller.require("runs:approve")
                return await self._decision(f"{field}.tool_use_id", event)
            case CustomToolResult():
                return await self._result(f"{field}.custom_tool_use_id", event)

    async def _say(self, content: str | list[ContentPart], posting: Posting) -> str:
        said = await self._services.managed.say(self._caller, self._session.id, content, **posting)
        return (
            ids.question_id(said.run_id)
            if said.message_id is None
            else ids.message_id(said.run_id, said.message_id)
        )

    async def _interrupt(self, *, is_repeated: bool) -> str:
        """Stop the turn; not the one that a message after it has begun."""
        session = await self._services.managed.get(self._caller, self._session.id)
        active = await self._services.managed.active_run(self._caller, session)
        # Those of this request, which perhaps is posted twice at once.
        begun = {id_of_key(self._caller, part_of(self._posting, place)) for place in range(MOST_EVENTS)}
        if active is None or is_repeated or active.key.run_id in begun:
            return ids.interrupt_id(session.id)
        await self._services.commands.stop(active.key, "interrupt")
        return ids.interrupt_id(active.key.run_id)

    async def _decision(self, field: str, event: ToolConfirmation) -> _Apply:
        run, asking, entries = await self._asking(field, event.tool_use_id)
        if isinstance(asking, ToolCallStart | PermissionRequest):
            for each in reversed(entries):
                request = each.event
                if isinstance(request, PermissionRequest) and request.tool_call_id == asking.tool_call_id:
                    decision = Decide(
                        request_id=request.request_id, decision=event.result, message=event.deny_message
                    )
                    return partial(self._submit, run, decision, event.tool_use_id)
        raise _not_asked(field)

    async def _result(self, field: str, event: CustomToolResult) -> _Apply:
        run, asking, _ = await self._asking(field, event.custom_tool_use_id)
        match asking:
            case ClientToolCall(tool_call_id=of):
                command: Command = SubmitToolResult(
                    tool_call_id=of, result=event.text, is_error=bool(event.is_error)
                )
            case QuestionAsked(request_id=of):
                answers = None if event.is_error else _answers(event.text)
                command = AnswerQuestion(request_id=of, answers=answers)
            case _:
                raise _not_asked(field)
        return partial(self._submit, run, command, event.custom_tool_use_id)

    async def _submit(self, run: RunKey, command: Command, asked: str) -> str:
        await self._services.commands.submit(run, command)
        return ids.answer_id(asked)

    async def _asking(self, field: str, known: str) -> tuple[RunKey, ClientEvent | None, Sequence[LogEntry]]:
        """The event of a run of the session that an id names."""
        place = ids.place_of(known)
        if place is None or all(turn.run_id != place.run_id for turn in self._session.turns):
            raise _not_asked(field)
        run = RunKey(self._caller.account_id, RunId(place.run_id))
        entries = await self._services.runs.events(run)
        asking = next((each.event for each in entries if each.position == place.position), None)
        return run, asking, entries


def _answers(text: str) -> dict[str, str | list[str]]:
    """By question; a text that is no object answers the first one."""
    try:
        return _ANSWERS.validate_json(text)
    except ValidationError:
        return {"0": text}


def _not_asked(field: str) -> Invalid:
    return Invalid.field(field, "must be the id of an event of this session that asks for it")
