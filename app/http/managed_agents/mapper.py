"""SessionMapper: maps a run to the events of its session, without I/O."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, assert_never

from app.events import (
    AssistantFinal,
    BudgetReached,
    Citation,
    ClientEvent,
    ClientToolCall,
    Done,
    FilesChanged,
    Interrupted,
    MessageDiscarded,
    PermissionRequest,
    PermissionResolved,
    QuestionAsked,
    QuestionResolved,
    Queued,
    RunError,
    RunStarted,
    RunWarning,
    Status,
    Step,
    TextDelta,
    ThinkingDelta,
    ToolCallResult,
    ToolCallStart,
    UserMessageDelivered,
)
from app.http.managed_agents.ids import answer_id, event_id, interrupt_id, message_id, question_id
from app.platform.clock.event_times import rfc3339
from app.requests.outcome import ErrorCode, FinishReason
from app.streams.port import LogEntry

Event: TypeAlias = dict[str, Any]

ASK_USER: Final = "ask_user"
"""The name of the custom tool that stands for a question of the agent to a person."""

_INSIDE: Final = Status | Citation | RunWarning | Interrupted | FilesChanged | Queued
"""What does not end the text of a message."""


@dataclass(slots=True)
class _Message:
    id: str
    of: str
    """The run's own id of it."""
    text: list[str]


@dataclass(slots=True)
class SessionMapper:
    """Maps each entry of a run, in order. What subagents do is not shown, except what they ask."""

    run_id: str
    question: str
    """The text of the message that it answers."""
    previews: Collection[str] = ()
    """The types of the events that are shown while they are written."""
    usage: Sequence[Event] = ()
    """What was used by its end, without the time of that."""
    _is_new: bool = True
    _is_idle: bool = True
    _message: _Message | None = None
    _thinking: str | None = None
    """The message whose thinking was shown last."""
    _last_text: str = ""
    _calls: dict[str, Event] = field(default_factory=dict)
    """The calls of tools that were shown, by the run's own ids."""
    _asked: dict[str, str] = field(default_factory=dict)
    """The ids of the events that ask for something, by the ids of the requests."""
    _pending: dict[str, str] = field(default_factory=dict)
    """Those that have no answer yet; a budget has no event."""
    _error: RunError | None = None

    def map(self, entry: LogEntry) -> Iterator[Event]:
        """The events of one entry."""
        for event in self._mapped(entry):
            # A preview is no event of the session.
            at = {} if "id" not in event else {"processed_at": rfc3339(entry.at)}
            yield {**event, **at}

    def _mapped(self, entry: LogEntry) -> Iterator[Event]:
        event, place = entry.event, event_id(self.run_id, entry.position)
        if self._is_new:
            self._is_new = False
            yield _users("user.message", question_id(self.run_id), content=_texts(self.question))
        if not isinstance(event, _INSIDE | TextDelta | MessageDiscarded) and not event.parent_tool_call_id:
            yield from self._end_message()
        yield from self._of(event, place)

    def _of(self, event: ClientEvent, place: str) -> Iterator[Event]:
        match event:
            case TextDelta() | ThinkingDelta() | MessageDiscarded():
                yield from self._written(event, place)
            case ToolCallStart() | ToolCallResult() | ClientToolCall():
                yield from self._called(event, place)
            case PermissionRequest() | QuestionAsked() | BudgetReached():
                yield from self._waits(event, place)
            case PermissionResolved() | QuestionResolved():
                yield from self._resolved(event, place)
            case RunStarted() | AssistantFinal() | RunError() | Done():
                yield from self._lifecycle(event, place)
            case _:
                yield from self._other(event)

    def _written(self, event: TextDelta | ThinkingDelta | MessageDiscarded, place: str) -> Iterator[Event]:
        if event.parent_tool_call_id is not None:
            return
        match event:
            case ThinkingDelta(message_id=of):
                if self._thinking != of:
                    self._thinking = of
                    yield from self._preview("agent.thinking", place)
                    yield {"type": "agent.thinking", "id": place}
            case MessageDiscarded(message_id=of):
                if self._message is not None and self._message.of == of:
                    self._message = None
            case TextDelta():
                yield from self._said(event, place)

    def _said(self, event: TextDelta, place: str) -> Iterator[Event]:
        message = self._message
        if message is None or message.of != event.message_id:
            yield from self._end_message()
            self._message = message = _Message(place, event.message_id, [])
            yield from self._preview("agent.message", place)
        message.text.append(event.delta)
        if "agent.message" in self.previews:
            part = {"type": "content_delta", "index": 0, "content": {"type": "text", "text": event.delta}}
            yield {"type": "event_delta", "event_id": message.id, "delta": part}

    def _preview(self, kind: str, place: str) -> Iterator[Event]:
        if kind in self.previews:
            yield {"type": "event_start", "event": {"type": kind, "id": place}}

    def _end_message(self) -> Iterator[Event]:
        message, self._message = self._message, None
        if message is not None and (text := "".join(message.text)).strip():
            self._last_text = text
            yield {"type": "agent.message", "id": message.id, "content": _texts(text)}

    def _called(self, event: ToolCallStart | ToolCallResult | ClientToolCall, place: str) -> Iterator[Event]:
        match event:
            case ToolCallStart(is_client_tool=False, parent_tool_call_id=None):
                yield self._use(event, place)
            case ToolCallStart():
                return
            case ClientToolCall(tool_call_id=of):
                self._calls[of] = _use("agent.custom_tool_use", place, event.tool_name, event.args)
                yield self._calls[of]
                yield from self._ask(of, place, place)
            case ToolCallResult(tool_call_id=of) if (call := self._calls.get(of)) is not None:
                yield _result(call, event)
                yield from self._answered(of, place)

    def _use(self, event: ToolCallStart | PermissionRequest, place: str) -> Event:
        server, is_remote, name = event.tool_name.partition("__")
        if is_remote:
            use = _use("agent.mcp_tool_use", place, name, event.args) | {"mcp_server_name": server}
        else:
            use = _use("agent.tool_use", place, event.tool_name, event.args)
        self._calls[event.tool_call_id] = use
        return use

    def _waits(self, event: PermissionRequest | QuestionAsked | BudgetReached, place: str) -> Iterator[Event]:
        match event:
            case PermissionRequest(tool_call_id=of):
                if of not in self._calls:
                    yield self._use(event, place) | {"evaluated_permission": "ask"}
                yield from self._ask(event.request_id, self._calls[of]["id"], place)
            case QuestionAsked():
                questions = [each.model_dump(mode="json", by_alias=True) for each in event.questions]
                yield _use("agent.custom_tool_use", place, ASK_USER, {"questions": questions})
                yield from self._ask(event.request_id, place, place)
            case BudgetReached():
                yield from self._ask(event.request_id, "", place)

    def _resolved(self, event: PermissionResolved | QuestionResolved, place: str) -> Iterator[Event]:
        asked = self._asked.get(event.request_id)
        match event:
            case PermissionResolved(reason="decided") if asked:
                result = "deny" if event.decision == "deny" else "allow"
                yield _users("user.tool_confirmation", answer_id(asked), tool_use_id=asked, result=result)
            case QuestionResolved(answers=answers) if asked and answers is not None:
                content = _texts(json.dumps(answers))
                told = {"custom_tool_use_id": asked, "content": content}
                yield _users("user.custom_tool_result", answer_id(asked), **told)
        yield from self._answered(event.request_id, place)

    def _ask(self, request_id: str, asked: str, place: str) -> Iterator[Event]:
        self._asked[request_id] = self._pending[request_id] = asked
        yield self._idle(place)

    def _answered(self, request_id: str, place: str) -> Iterator[Event]:
        if self._pending.pop(request_id, None) is None:
            return
        if self._pending:
            yield self._idle(place)
        else:
            yield from self._running(place)

    def _idle(self, place: str) -> Event:
        self._is_idle = True
        asked = [each for each in self._pending.values() if each]
        reason = {"type": "requires_action", "event_ids": asked} if asked else {"type": "budget_reached"}
        return {"type": "session.status_idle", "id": f"{place}.idle", "stop_reason": reason}

    def _running(self, place: str) -> Iterator[Event]:
        if self._is_idle:
            self._is_idle = False
            yield {"type": "session.status_running", "id": f"{place}.running"}

    def _lifecycle(self, event: RunStarted | AssistantFinal | RunError | Done, place: str) -> Iterator[Event]:
        match event:
            case RunStarted():
                # A later attempt: what the earlier one has left open has no end.
                self._pending.clear()
                if not self._is_idle:
                    self._is_idle = True
                    yield {"type": "session.status_rescheduled", "id": place}
                yield from self._running(place)
            case AssistantFinal(content=content):
                if content.strip() and content.strip() not in self._last_text:
                    yield {"type": "agent.message", "id": place, "content": _texts(content)}
            case RunError():
                self._error = event
            case Done():
                yield from self._ended(event, place)

    def _ended(self, event: Done, place: str) -> Iterator[Event]:
        yield from self.usage
        if (error := _error_of(self._error, event.finish_reason)) is not None:
            yield {"type": "session.error", "id": place, "error": error}
        reason = _stop_reason(self._error, event.finish_reason)
        yield {"type": "session.status_idle", "id": f"{place}.idle", "stop_reason": reason}

    def _other(
        self,
        event: UserMessageDelivered
        | Interrupted
        | Queued
        | Status
        | RunWarning
        | Step
        | Citation
        | FilesChanged,
    ) -> Iterator[Event]:
        match event:
            case UserMessageDelivered(message_id=sent, content=content):
                yield _users("user.message", message_id(self.run_id, sent), content=_texts(content))
            case Interrupted():
                if (event.state, event.kind) == ("requested", "interrupt"):
                    yield _users("user.interrupt", interrupt_id(self.run_id))
            case Queued() | Status() | RunWarning() | Step() | Citation() | FilesChanged():
                return
            case _:
                assert_never(event)


_KINDS: Final[Mapping[ErrorCode, str]] = {
    "insufficient_credits": "billing_error",
    "budget_reached": "billing_error",
    "rate_limit": "model_rate_limited_error",
    "provider_unavailable": "model_overloaded_error",
    "provider_refused": "model_request_failed_error",
    "length": "model_request_failed_error",
    "context": "model_request_failed_error",
}
"""The types of errors that their clients know; all others are `unknown_error`."""


def _stop_reason(error: RunError | None, finish: FinishReason) -> dict[str, Any]:
    """Why the session is idle now."""
    if error is None or error.error == "aborted":
        return {"type": "end_turn"}
    if error.error == "refused":
        return {"type": "refusal"}
    if error.error == "budget_reached" or _is_limit(error, finish):
        return {"type": "budget_reached"}
    return {"type": "retries_exhausted"}


def _error_of(error: RunError | None, finish: FinishReason) -> dict[str, Any] | None:
    """What went wrong; None if the stop reason says all of it."""
    if error is None or error.error in {"aborted", "refused"} or _is_limit(error, finish):
        return None
    kind = _KINDS.get(error.error, "unknown_error")
    budget = f" The budget {error.budget} is used up." if error.budget else ""
    resets = f" It starts again at {error.resets_at}." if error.resets_at else ""
    message = f"The run ended with {error.error} ({finish}).{budget}{resets}"
    return {"type": kind, "message": message, "retry_status": {"type": "exhausted"}}


def _is_limit(error: RunError, finish: FinishReason) -> bool:
    """Whether the run was at a limit of its own: of dollars, tokens or output."""
    return error.error == "rate_limit" and finish == "budget"


def _texts(text: str) -> list[Event]:
    return [{"type": "text", "text": text}] if text else []


def _users(kind: str, id_: str, **more: Any) -> Event:
    return {"type": kind, "id": id_, **more}


def _use(kind: str, place: str, name: str, args: Any) -> Event:
    given = args if isinstance(args, dict) else {"value": args}
    return {"type": kind, "id": place, "name": name, "input": given}


_RESULTS: Final = {
    "agent.tool_use": ("agent.tool_result", "tool_use_id", "result"),
    "agent.mcp_tool_use": ("agent.mcp_tool_result", "mcp_tool_use_id", "result"),
    "agent.custom_tool_use": ("user.custom_tool_result", "custom_tool_use_id", "answer"),
}


def _result(call: Event, event: ToolCallResult) -> Event:
    kind, name, place = _RESULTS[call["type"]]
    text = event.result if isinstance(event.result, str) else json.dumps(event.result)
    known = {name: call["id"], "content": _texts(text), "is_error": event.is_error}
    return _users(kind, f"{call['id']}.{place}", **known)
