"""AiSdkMessageMapper: maps a run to the parts of one UI message of the AI SDK, without I/O.

The parts are those of `ai` 5.0.0, whose schemas reject all other parts and fields; with approvals, also
two parts of 6.0.0. A step of the AI SDK is one turn of the model with its tool calls.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, assert_never

from pydantic import JsonValue

from app import events
from app.http.ai_sdk.blocks import BlockKind, MessageBlocks, Part
from app.http.ai_sdk.parts import QuestionParts, Sources, data_part, failed, failed_call, fields_of, reason_of
from app.platform.clock.event_times import rfc3339
from app.requests.outcome import FinishReason
from app.streams.event_json import to_json
from app.streams.port import LogEntry

OLDEST_VERSION: Final = 5
FINISH_REASON_SINCE: Final = 6
"""The first major version of `ai` whose `finish` has a `finishReason`, which `onFinish` receives."""

_FINISH_REASONS: Final[dict[FinishReason, str]] = {
    "stop": "stop",
    "error": "error",
    "refused": "content-filter",
    "length": "length",
    "context": "length",
}
"""The SDK's names of finish reasons; the others are `other`."""


@dataclass(slots=True)
class _Call:
    """A tool call that has been sent and has no output yet."""

    name: str
    step: int
    needs_approval: bool = False


@dataclass(slots=True)
class AiSdkMessageMapper:
    """Maps each entry of a run, in order, to parts."""

    run_id: str
    approvals: bool
    """Whether permission requests are parts that the client answers by posting the message again.

    The client posts it once every call of the last step is decided or has an output. So a call is deferred
    until earlier ones have their outputs, and a call that needs approval beside others gets its own step.
    """
    version: int = OLDEST_VERSION
    """The client's major version of `ai`, as far as it is known."""
    answered: frozenset[str] = frozenset()
    """The calls of client tools whose results the client has given itself."""
    pending: dict[str, events.PermissionRequest] = field(default_factory=dict)
    """Undecided requests by id."""
    _budget: events.BudgetReached | None = None
    """The last one that was reached."""
    _questions: QuestionParts = field(default_factory=QuestionParts)
    waiting: set[str] = field(default_factory=set)
    """The calls of client tools that wait for their results."""
    _client_calls: dict[str, events.ToolCallStart] = field(default_factory=dict)
    """The calls of client tools without a result."""
    _client_step: int | None = None
    """The step of the last of them."""
    _step: int = 0
    _in_step: bool = False
    _turn_ended: bool = False
    _message: str | None = None
    _blocks: MessageBlocks = field(default_factory=MessageBlocks)
    _sources: Sources = field(default_factory=Sources)
    _open: dict[str, _Call] = field(default_factory=dict)
    _deferred: dict[str, events.ToolCallStart] = field(default_factory=dict)
    _has_denied_call: bool = False
    """Whether a call of this step was denied: 6.0.0 would not post the step's other decisions."""
    _error: events.RunError | None = None
    _began: int = 0
    """The time of the run's first event."""

    @property
    def has_open_calls(self) -> bool:
        """Whether calls have no result yet of our own tools, or of the client's that it has yet to get."""
        return bool(self._open or self._deferred or self._client_calls.keys() - self.waiting)

    @property
    def metadata(self) -> Part:
        """Metadata of the message, known from the first event on."""
        return {"runId": self.run_id} | ({"createdAt": rfc3339(self._began)} if self._began else {})

    def map(self, entry: LogEntry) -> Iterator[Part]:
        self._began = self._began or entry.at
        position, event = entry.position, entry.event
        if isinstance(event, events.ToolCallResult) and event.tool_call_id in self._client_calls:
            yield from self._client_result(event)
        elif (
            isinstance(event, events.ToolCallResult)
            and event.tool_call_id in self._open.keys() | self._deferred.keys()
        ):
            yield from self._result(event)
        elif event.parent_tool_call_id is not None:
            yield data_part("subagent", json.loads(to_json(event)), transient=True)
        else:
            yield from self._map(event, position)

    def _map(self, event: events.ClientEvent, position: int) -> Iterator[Part]:
        match event:
            case events.TextDelta() | events.ThinkingDelta():
                yield from self._delta(event, position)
            case events.MessageDiscarded():
                yield from self._discard(event)
            case events.ToolCallStart() | events.ClientToolCall():
                yield from self._call(event)
            case events.ToolCallResult():
                # The result of a denied call, or of a call of an earlier attempt.
                return
            case events.BudgetReached() | events.PermissionRequest() | events.PermissionResolved():
                yield from self._permission(event)
            case events.RunStarted() | events.AssistantFinal() | events.RunError() | events.Done():
                yield from self._lifecycle(event)
            case _:
                yield from self._data_part(event)

    def _data_part(
        self,
        event: events.Queued
        | events.Status
        | events.RunWarning
        | events.Interrupted
        | events.Step
        | events.UserMessageDelivered
        | events.Citation
        | events.FilesChanged
        | events.QuestionAsked
        | events.QuestionResolved,
    ) -> Iterator[Part]:
        if isinstance(event, events.Citation):
            yield from self._sources.add(event)
            return
        if isinstance(event, events.QuestionAsked | events.QuestionResolved):
            yield self._questions.map(event, self.run_id)
            return
        if isinstance(event, events.FilesChanged):
            yield data_part("files-changed", fields_of(event))
            return
        if isinstance(event, events.UserMessageDelivered):
            yield from self._blocks.close()
            yield data_part("user-message", fields_of(event), part_id=event.message_id)
            return
        if isinstance(event, events.Step):
            self._turn_ended = True
        elif not isinstance(event, events.Queued | events.Status | events.RunWarning | events.Interrupted):
            assert_never(event)
        yield data_part(event.type, fields_of(event), transient=True)

    def _lifecycle(
        self, event: events.RunStarted | events.AssistantFinal | events.RunError | events.Done
    ) -> Iterator[Part]:
        match event:
            case events.RunStarted():
                # A later attempt: what the earlier one left open has no end.
                yield from self._close_all()
            case events.AssistantFinal():
                yield from self._blocks.close()
                if event.structured_output is not None:
                    yield data_part("structured-output", fields_of(event)["structuredOutput"])
            case events.RunError():
                self._error = event
            case events.Done():
                yield from self._end(event)

    def _delta(self, event: events.TextDelta | events.ThinkingDelta, position: int) -> Iterator[Part]:
        if self._message not in {None, event.message_id}:
            self._turn_ended = True
        yield from self._ensure_step()
        self._message = event.message_id
        kind: BlockKind = "text" if isinstance(event, events.TextDelta) else "reasoning"
        yield from self._blocks.add(kind, event.delta, position=position)

    def _discard(self, event: events.MessageDiscarded) -> Iterator[Part]:
        yield data_part("message-discarded", fields_of(event), transient=True)
        if self._message == event.message_id:
            self._message = None
            yield from self._blocks.discard()

    def _call(self, event: events.ToolCallStart | events.ClientToolCall) -> Iterator[Part]:
        match event:
            case events.ClientToolCall():
                yield from self._client_call(event)
            case events.ToolCallStart(is_client_tool=True):
                # The client gets it once its arguments are valid, or else with its error.
                self._client_calls[event.tool_call_id] = event
            case events.ToolCallStart():
                yield from self._own_call(event)

    def _own_call(self, event: events.ToolCallStart) -> Iterator[Part]:
        yield from self._blocks.close()
        yield from self._ensure_step()
        if self.approvals and self._open:
            self._deferred[event.tool_call_id] = event
        else:
            yield from self._open_call(event)

    def _client_call(self, event: events.ClientToolCall) -> Iterator[Part]:
        """A call that the client executes: in a step without unfinished calls of ours.

        The client posts its results once every call of its last step has one.
        """
        yield from self._blocks.close()
        if self._client_step != self._step and self._open:
            yield from self._close_step()
        yield from self._open_step()
        self._client_step = self._step
        self.waiting.add(event.tool_call_id)
        yield {
            "type": "tool-input-available",
            "toolCallId": event.tool_call_id,
            "toolName": event.tool_name,
            "input": fields_of(event)["args"],
        }

    def _client_result(self, event: events.ToolCallResult) -> Iterator[Part]:
        call = self._client_calls.pop(event.tool_call_id)
        if event.tool_call_id not in self.waiting:
            # It failed before the client could get it.
            yield from self._own_call(call)
            yield from self._result(event)
            return
        self.waiting.discard(event.tool_call_id)
        if event.tool_call_id in self.answered:
            return
        result = fields_of(event)["result"]
        if event.is_error:
            text = result if isinstance(result, str) else failed_call(reason_of(result))
            yield {"type": "tool-output-error", "toolCallId": event.tool_call_id, "errorText": text}
        else:
            yield {"type": "tool-output-available", "toolCallId": event.tool_call_id, "output": result}

    def _open_call(self, call: events.ToolCallStart | events.PermissionRequest) -> Iterator[Part]:
        if self._has_denied_call:
            yield from self._close_step()
        yield from self._open_step()
        self._open[call.tool_call_id] = _Call(call.tool_name, self._step)
        yield self._input(call.tool_call_id, fields_of(call)["args"])

    def _open_deferred_call(self) -> Iterator[Part]:
        if self._deferred and not self._open:
            yield from self._open_call(self._deferred.pop(next(iter(self._deferred))))

    def _input(self, call_id: str, args: JsonValue) -> Part:
        part = {
            "type": "tool-input-available",
            "toolCallId": call_id,
            "toolName": self._open[call_id].name,
            "input": args,
        }
        # 6.0.0 does not post approvals of calls that are marked as executed by the provider.
        return part if self.approvals else {**part, "providerExecuted": True}

    def _result(self, event: events.ToolCallResult) -> Iterator[Part]:
        if (deferred := self._deferred.pop(event.tool_call_id, None)) is not None:
            yield from self._open_call(deferred)
        del self._open[event.tool_call_id]
        result = fields_of(event)["result"]
        if event.is_error:
            yield failed(event.tool_call_id, reason_of(result))
        else:
            yield {"type": "tool-output-available", "toolCallId": event.tool_call_id, "output": result}
        yield from self._open_deferred_call()

    def _permission(
        self, event: events.BudgetReached | events.PermissionRequest | events.PermissionResolved
    ) -> Iterator[Part]:
        if isinstance(event, events.PermissionRequest):
            yield from self._request(event)
        elif isinstance(event, events.BudgetReached):
            self._budget = event
            yield self._waiting_data("budget", event, state="requested")
        elif self._budget is not None and self._budget.request_id == event.request_id:
            yield self._waiting_data("budget", self._budget, **_state_of(event))
        elif (request := self.pending.pop(event.request_id, None)) is not None:
            yield from self._resolve(request, event)

    def _request(self, event: events.PermissionRequest) -> Iterator[Part]:
        self.pending[event.request_id] = event
        if not self.approvals:
            yield self._waiting_data("permission", event, state="requested")
            return
        yield from self._blocks.close()
        if event.tool_call_id not in self._open:
            self._deferred.pop(event.tool_call_id, None)
            if any(not call.needs_approval for call in self._open.values()):
                yield from self._close_step()
            yield from self._open_call(event)
        self._open[event.tool_call_id].needs_approval = True
        yield {
            "type": "tool-approval-request",
            "approvalId": event.request_id,
            "toolCallId": event.tool_call_id,
        }

    def _resolve(self, request: events.PermissionRequest, event: events.PermissionResolved) -> Iterator[Part]:
        if not self.approvals:
            yield self._waiting_data("permission", request, **_state_of(event))
        call = self._open.get(request.tool_call_id)
        if call is None:
            return
        call.needs_approval = False
        if self.approvals and event.decision == "deny":
            del self._open[request.tool_call_id]
            self._has_denied_call = True
            yield {"type": "tool-output-denied", "toolCallId": request.tool_call_id}
            yield from self._open_deferred_call()
        elif event.args is not None and call.step == self._step:
            # Version 7 looks for the call in the current step only, and would show it twice.
            yield self._input(request.tool_call_id, fields_of(event)["args"])

    def _waiting_data(
        self, name: str, request: events.BudgetReached | events.PermissionRequest, **state: str
    ) -> Part:
        data = {**fields_of(request), "runId": self.run_id, **state}
        return data_part(name, data, part_id=request.request_id)

    def _end(self, event: events.Done) -> Iterator[Part]:
        yield from self._close_all()
        metadata = {**self.metadata, **fields_of(event)}
        if self._error is not None and self._error.error == "aborted":
            yield {"type": "abort"}
        elif self._error is not None:
            metadata |= fields_of(self._error)
            # Sent before the error: clients read nothing after it.
            yield {"type": "message-metadata", "messageMetadata": metadata}
            yield {"type": "error", "errorText": f"The run did not succeed: {self._error.error}."}
        yield self.finish(_FINISH_REASONS.get(event.finish_reason, "other"), metadata)

    def finish(self, reason: str, metadata: Part) -> Part:
        named = {"finishReason": reason} if self.version >= FINISH_REASON_SINCE else {}
        return {"type": "finish", **named, "messageMetadata": metadata}

    def _close_all(self) -> Iterator[Part]:
        for deferred in list(self._deferred.values()):
            yield from self._open_call(deferred)
        for call_id in (*self._open, *self.waiting):
            yield failed(call_id, "interrupted")
        yield from self._questions.close(self.run_id)
        self._client_calls.clear()
        self.waiting.clear()
        self._deferred.clear()
        self._open.clear()
        self.pending.clear()
        yield from self._close_step()

    def _ensure_step(self) -> Iterator[Part]:
        if self._turn_ended:
            yield from self._close_step()
            self._turn_ended, self._message = False, None
        yield from self._open_step()

    def _open_step(self) -> Iterator[Part]:
        if not self._in_step:
            self._in_step = True
            yield {"type": "start-step"}

    def _close_step(self) -> Iterator[Part]:
        yield from self._blocks.close()
        if self._in_step:
            self._in_step = self._has_denied_call = False
            self._step += 1
            yield {"type": "finish-step"}


def _state_of(event: events.PermissionResolved) -> dict[str, str]:
    """What a part shows of a request that no longer waits."""
    return {"state": "denied" if event.decision == "deny" else "allowed", "reason": event.reason}
