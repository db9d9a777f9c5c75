"""A run as the parts of one AI SDK UI message; a fold without I/O.

The parts are those of `ai` 5.0.0, whose schemas refuse every other part and field; only where
approvals are wanted, two more that came with 6.0.0. In its words a step is one turn of the model
with the tool calls of that turn.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pydantic import JsonValue

from app.events import (
    AssistantFinal,
    ClientEvent,
    Done,
    Interrupted,
    PermissionRequest,
    PermissionResolved,
    Queued,
    RunError,
    RunStarted,
    Status,
    Step,
    TextDelta,
    ThinkingDelta,
    ToolCallResult,
    ToolCallStart,
    UserMessageDelivered,
)
from app.requests import ErrorCode
from app.streams.event_json import to_json
from app.streams.port import LogEntry

Part: TypeAlias = dict[str, Any]


@dataclass(slots=True)
class _Call:
    """A tool call that was told and has no output yet."""

    name: str
    step: int
    asked: bool = False


@dataclass(slots=True)
class AiSdkMessageMapper:
    """Feed every entry in order; each call yields the parts a client hears of it."""

    run_id: str
    approvals: bool
    """Whether consent is asked for by a part that the client answers by posting again.

    It posts once every call of the last step is answered or done. So a call is told only when the
    ones before it are done, and one that must be asked for beside others gets a step of its own.
    """
    asked: dict[str, PermissionRequest] = field(default_factory=dict)
    """What waits for a person, by request id."""
    _step: int = 0
    _stepping: bool = False
    _turn_over: bool = False
    _speaker: str | None = None
    _block: tuple[Literal["text", "reasoning"], str] | None = None
    _open: dict[str, _Call] = field(default_factory=dict)
    _held: dict[str, ToolCallStart] = field(default_factory=dict)
    _denied: bool = False
    """Whether a call of this step was denied: 6.0.0 would not count the step as answered any more."""
    _error: ErrorCode | None = None

    def feed(self, entry: LogEntry) -> Iterator[Part]:
        """The parts of one entry."""
        position, event = entry
        match event:
            case ToolCallResult() if event.tool_call_id in self._open.keys() | self._held.keys():
                yield from self._result(event)
            case _ if event.parent_tool_call_id is not None:
                yield _data("subagent", json.loads(to_json(event)), transient=True)
            case TextDelta() | ThinkingDelta():
                yield from self._say(event, position)
            case ToolCallStart():
                yield from self._call(event)
            case PermissionRequest():
                yield from self._ask(event)
            case PermissionResolved():
                yield from self._resolve(event)
            case _:
                yield from self._note(event)

    @property
    def metadata(self) -> Part:
        """What is known of the run from its first event on."""
        return {"runId": self.run_id}

    def _note(self, event: ClientEvent) -> Iterator[Part]:
        match event:
            case Queued() | Status() | Interrupted():
                yield _data(event.type, _fields(event), transient=True)
            case Step():
                self._turn_over = True
                yield _data("step", _fields(event), transient=True)
            case UserMessageDelivered():
                yield from self._close_block()
                yield _data("user-message", _fields(event), part_id=event.message_id)
            case AssistantFinal():
                yield from self._final(event)
            case RunStarted():
                # Nobody finishes what an attempt before this one had begun.
                yield from self._close()
            case RunError():
                self._error = event.error
            case Done():
                yield from self._end(event)
            case _:
                # The result of a call that was denied, or that an earlier attempt had begun.
                return

    def _say(self, event: TextDelta | ThinkingDelta, position: int) -> Iterator[Part]:
        kind: Literal["text", "reasoning"] = "text" if isinstance(event, TextDelta) else "reasoning"
        if self._speaker not in {None, event.message_id}:
            self._turn_over = True
        yield from self._take_step()
        self._speaker = event.message_id
        if self._block is None or self._block[0] != kind:
            yield from self._close_block()
            self._block = (kind, f"{kind}-{position}")
            yield {"type": f"{kind}-start", "id": self._block[1]}
        yield {"type": f"{kind}-delta", "id": self._block[1], "delta": event.delta}

    def _call(self, event: ToolCallStart) -> Iterator[Part]:
        yield from self._close_block()
        yield from self._take_step()
        if self.approvals and self._open:
            self._held[event.tool_call_id] = event
        else:
            yield from self._tell(event)

    def _tell(self, call: ToolCallStart | PermissionRequest) -> Iterator[Part]:
        if self._denied:
            yield from self._close_step()
        yield from self._open_step()
        self._open[call.tool_call_id] = _Call(call.tool_name, self._step)
        yield self._input(call.tool_call_id, _fields(call)["args"])

    def _input(self, call_id: str, args: JsonValue) -> Part:
        part = {
            "type": "tool-input-available",
            "toolCallId": call_id,
            "toolName": self._open[call_id].name,
            "input": args,
        }
        # What clients are told to be run elsewhere, 6.0.0 does not post the approval of.
        return part if self.approvals else {**part, "providerExecuted": True}

    def _result(self, event: ToolCallResult) -> Iterator[Part]:
        if (held := self._held.pop(event.tool_call_id, None)) is not None:
            yield from self._tell(held)
        del self._open[event.tool_call_id]
        result = _fields(event)["result"]
        if event.is_error:
            yield _failed(event.tool_call_id, _reason(result))
        else:
            yield {"type": "tool-output-available", "toolCallId": event.tool_call_id, "output": result}
        yield from self._tell_next()

    def _tell_next(self) -> Iterator[Part]:
        if self._held and not self._open:
            yield from self._tell(self._held.pop(next(iter(self._held))))

    def _ask(self, event: PermissionRequest) -> Iterator[Part]:
        self.asked[event.request_id] = event
        if not self.approvals:
            yield self._permission(event, state="requested")
            return
        yield from self._close_block()
        if event.tool_call_id not in self._open:
            self._held.pop(event.tool_call_id, None)
            if any(not call.asked for call in self._open.values()):
                yield from self._close_step()
            yield from self._tell(event)
        self._open[event.tool_call_id].asked = True
        yield {
            "type": "tool-approval-request",
            "approvalId": event.request_id,
            "toolCallId": event.tool_call_id,
        }

    def _resolve(self, event: PermissionResolved) -> Iterator[Part]:
        request = self.asked.pop(event.request_id, None)
        if request is None:
            return
        if not self.approvals:
            state = "allowed" if event.decision == "allow" else "denied"
            yield self._permission(request, state=state, reason=event.reason)
        call = self._open.get(request.tool_call_id)
        if call is None:
            return
        call.asked = False
        if self.approvals and event.decision == "deny":
            del self._open[request.tool_call_id]
            self._denied = True
            yield {"type": "tool-output-denied", "toolCallId": request.tool_call_id}
            yield from self._tell_next()
        elif event.args is not None and call.step == self._step:
            # In an earlier step 7 would not find the call, and show it twice.
            yield self._input(request.tool_call_id, _fields(event)["args"])

    def _permission(self, request: PermissionRequest, **state: str) -> Part:
        data = {**_fields(request), "runId": self.run_id, **state}
        return _data("permission", data, part_id=request.request_id)

    def _final(self, event: AssistantFinal) -> Iterator[Part]:
        yield from self._close_block()
        if event.structured_output is not None:
            yield _data("structured-output", _fields(event)["structuredOutput"])

    def _end(self, event: Done) -> Iterator[Part]:
        yield from self._close()
        metadata = {**self.metadata, "usage": _fields(event)["usage"], "finishReason": event.finish_reason}
        if self._error == "aborted":
            yield {"type": "abort"}
        elif self._error is not None:
            metadata["error"] = self._error
            # A chat reads nothing after an error.
            yield {"type": "message-metadata", "messageMetadata": metadata}
            yield {"type": "error", "errorText": f"The run did not succeed: {self._error}."}
        yield {"type": "finish", "messageMetadata": metadata}

    def _close(self) -> Iterator[Part]:
        for held in list(self._held.values()):
            yield from self._tell(held)
        for call_id in self._open:
            yield _failed(call_id, "interrupted")
        self._held.clear()
        self._open.clear()
        self.asked.clear()
        yield from self._close_step()

    def _close_block(self) -> Iterator[Part]:
        if self._block is not None:
            kind, block_id = self._block
            self._block = None
            yield {"type": f"{kind}-end", "id": block_id}

    def _take_step(self) -> Iterator[Part]:
        if self._turn_over:
            yield from self._close_step()
            self._turn_over, self._speaker = False, None
        yield from self._open_step()

    def _open_step(self) -> Iterator[Part]:
        if not self._stepping:
            self._stepping = True
            yield {"type": "start-step"}

    def _close_step(self) -> Iterator[Part]:
        yield from self._close_block()
        if self._stepping:
            self._stepping = self._denied = False
            self._step += 1
            yield {"type": "finish-step"}


def _fields(event: ClientEvent) -> dict[str, Any]:
    """The event as our own wire says it, without its type."""
    fields: dict[str, Any] = json.loads(to_json(event))
    del fields["type"]
    return fields


def _data(name: str, data: JsonValue, *, part_id: str | None = None, transient: bool = False) -> Part:
    """A data part; clients keep it in the message unless it is transient, one for each id."""
    part: Part = {"type": f"data-{name}", "data": data}
    if part_id is not None:
        part["id"] = part_id
    return {**part, "transient": True} if transient else part


def _failed(call_id: str, reason: str) -> Part:
    return {
        "type": "tool-output-error",
        "toolCallId": call_id,
        "errorText": f"The tool call failed: {reason}.",
    }


def _reason(result: JsonValue) -> str:
    match result:
        case {"error": str(code)}:
            return code
        case _:
            return json.dumps(result)
