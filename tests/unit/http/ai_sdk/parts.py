"""Builders of events, and readers of the AI SDK encoder's parts."""

import json
from typing import Any, Literal

from app.events import (
    ClientEvent,
    Done,
    PermissionRequest,
    PermissionResolved,
    RunStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallResult,
    ToolCallStart,
)
from app.http.ai_sdk.encoder import AiSdkEncoder
from app.requests.outcome import FinalUsage
from app.streams.port import LogEntry

STARTED = RunStarted(run_id="r-1", graph_id="claude_agents:assistant", model="sonnet", attempt=0)
STOPPED = Done(usage=FinalUsage(prompt_tokens=10, completion_tokens=5), finish_reason="stop")
ARGS = {"to": "bob"}


def entries_of(*events: ClientEvent) -> list[LogEntry]:
    return [LogEntry(position, event) for position, event in enumerate(events, start=1)]


def parts_in(stream: bytes) -> list[Any]:
    """What a client reads, without `[DONE]`."""
    frames = stream.decode("ascii").split("\n\n")[:-1]
    return [json.loads(frame.removeprefix("data: ")) for frame in frames if frame != "data: [DONE]"]


def parts_of(*events: ClientEvent, approvals: bool = False) -> list[Any]:
    return parts_in(AiSdkEncoder("r-1", approvals=approvals).encode(entries_of(*events)))


def kinds_of(parts: list[Any]) -> list[str]:
    return [f"{part['type']} {part.get('toolCallId', '')}".strip() for part in parts]


def a_request(call_id: str) -> PermissionRequest:
    return PermissionRequest(
        request_id=f"p-{call_id}", tool_call_id=call_id, tool_name="mail", args=ARGS, expires_at="later"
    )


def a_resolution(
    call_id: str, decision: Literal["allow", "deny"] = "allow", **fields: Any
) -> PermissionResolved:
    return PermissionResolved(request_id=f"p-{call_id}", decision=decision, reason="decided", **fields)


def a_call(call_id: str) -> ToolCallStart:
    return ToolCallStart(tool_call_id=call_id, tool_name="mail", args=ARGS)


def a_result(call_id: str, *, is_error: bool = False) -> ToolCallResult:
    result = {"error": "policy_denied"} if is_error else {"to": "bob"}
    return ToolCallResult(tool_call_id=call_id, result=result, is_error=is_error)


def a_text(message_id: str, delta: str, parent: str | None = None) -> TextDelta:
    return TextDelta(message_id=message_id, delta=delta, parent_tool_call_id=parent)


def a_thought(message_id: str, delta: str) -> ThinkingDelta:
    return ThinkingDelta(message_id=message_id, delta=delta)
