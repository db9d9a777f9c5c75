"""ShownMessages: the messages that an AG-UI client has by now, for a snapshot without one of them; pure."""

from collections.abc import Iterator, Sequence

from ag_ui import core


class ShownMessages:
    """Begins with what the client has posted, and follows the events that it gets."""

    def __init__(self, posted: Sequence[core.Message]) -> None:
        self._posted = posted
        self._events: list[core.BaseEvent] = []

    def add(self, event: core.BaseEvent) -> None:
        if isinstance(event, _MESSAGE_EVENTS):
            self._events.append(event)

    def discard(self, message_id: str, subagent: str | None) -> bool:
        """Leave out a message so far, with its reasoning; returns whether the client has any of it."""
        kept = [
            event
            for event in self._events
            if not (_is_of(event, message_id) and _subagent_of(event) == subagent)
        ]
        posted = [
            message
            for message in self._posted
            if not (message.id == message_id and _subagent_of(message) == subagent)
        ]
        is_shown = (len(kept), len(posted)) != (len(self._events), len(self._posted))
        self._events, self._posted = kept, posted
        return is_shown

    def messages(self) -> list[core.Message]:
        ids = {message.id for message in _folded(self._events)}
        return [*(message for message in self._posted if message.id not in ids), *_folded(self._events)]


_MESSAGE_EVENTS = (
    core.TextMessageStartEvent,
    core.TextMessageContentEvent,
    core.ReasoningMessageStartEvent,
    core.ReasoningMessageContentEvent,
    core.ToolCallStartEvent,
    core.ToolCallArgsEvent,
    core.ToolCallResultEvent,
)


def _subagent_of(part: core.BaseEvent | core.Message) -> str | None:
    found: str | None = getattr(part, "subagent_run_id", None)
    return found


def _is_of(event: core.BaseEvent, message_id: str) -> bool:
    match event:
        case core.TextMessageStartEvent() | core.TextMessageContentEvent():
            return event.message_id == message_id
        case core.ReasoningMessageStartEvent() | core.ReasoningMessageContentEvent():
            return event.message_id.startswith(f"{message_id}:thinking:")
        case _:
            return False


def _folded(events: Sequence[core.BaseEvent]) -> Iterator[core.Message]:
    found: dict[str, core.Message] = {}
    calls: dict[str, core.ToolCall] = {}
    for event in events:
        match event:
            case core.TextMessageStartEvent(message_id=name, role="user"):
                found.setdefault(name, core.UserMessage(id=name, content=""))
            case core.TextMessageStartEvent(message_id=name):
                found.setdefault(name, core.AssistantMessage(id=name, subagent_run_id=event.subagent_run_id))
            case core.ReasoningMessageStartEvent(message_id=name):
                found[name] = core.ReasoningMessage(
                    id=name, content="", subagent_run_id=event.subagent_run_id
                )
            case core.TextMessageContentEvent() | core.ReasoningMessageContentEvent():
                _append(found, event)
            case _:
                _fold_call(found, calls, event)
    yield from found.values()


def _fold_call(
    found: dict[str, core.Message], calls: dict[str, core.ToolCall], event: core.BaseEvent
) -> None:
    match event:
        case core.ToolCallStartEvent(tool_call_id=call_id):
            calls[call_id] = _add_call(found, event)
        case core.ToolCallArgsEvent(tool_call_id=call_id, delta=delta):
            calls[call_id].function.arguments += delta
        case core.ToolCallResultEvent(message_id=name, tool_call_id=call_id, content=str(content)):
            found[name] = core.ToolMessage(id=name, tool_call_id=call_id, content=content)
        case _:
            pass


def _append(
    found: dict[str, core.Message], event: core.TextMessageContentEvent | core.ReasoningMessageContentEvent
) -> None:
    message = found[event.message_id]
    if isinstance(message, core.AssistantMessage | core.ReasoningMessage | core.UserMessage):
        message.content = f"{message.content or ''}{event.delta}"


def _add_call(found: dict[str, core.Message], event: core.ToolCallStartEvent) -> core.ToolCall:
    """The call, in its parent message or in a message of its own, as clients put it."""
    function = core.FunctionCall(name=event.tool_call_name, arguments="")
    call = core.ToolCall(id=event.tool_call_id, type="function", function=function)
    parent = found.get(event.parent_message_id or "")
    if not isinstance(parent, core.AssistantMessage):
        name = event.parent_message_id or event.tool_call_id
        parent = core.AssistantMessage(id=name, subagent_run_id=event.subagent_run_id)
        found[name] = parent
    parent.tool_calls = [*(parent.tool_calls or ()), call]
    return call
