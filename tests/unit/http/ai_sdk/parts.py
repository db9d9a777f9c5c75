"""Builders of events, and readers of the AI SDK encoder's parts."""

import json
from typing import Any, Literal

from app import events
from app.http.ai_sdk.encoder import AiSdkEncoder
from tests.unit.http.events import entries_of

ARGS = {"to": "bob"}


def parts_in(stream: bytes) -> list[Any]:
    """What a client reads, without `[DONE]`."""
    frames = stream.decode("ascii").split("\n\n")[:-1]
    return [json.loads(frame.removeprefix("data: ")) for frame in frames if frame != "data: [DONE]"]


def parts_of(*given: events.ClientEvent, approvals: bool = False) -> list[Any]:
    return parts_in(AiSdkEncoder("r-1", approvals=approvals).encode(entries_of(*given)))


def kinds_of(parts: list[Any]) -> list[str]:
    return [f"{part['type']} {part.get('toolCallId', '')}".strip() for part in parts]


def a_request(call_id: str) -> events.PermissionRequest:
    return events.PermissionRequest(
        request_id=f"p-{call_id}", tool_call_id=call_id, tool_name="mail", args=ARGS, expires_at="later"
    )


def a_resolution(
    call_id: str, decision: Literal["allow", "deny"] = "allow", **fields: Any
) -> events.PermissionResolved:
    return events.PermissionResolved(request_id=f"p-{call_id}", decision=decision, reason="decided", **fields)


def a_call(call_id: str) -> events.ToolCallStart:
    return events.ToolCallStart(tool_call_id=call_id, tool_name="mail", args=ARGS)


def a_result(call_id: str, *, is_error: bool = False) -> events.ToolCallResult:
    result = {"error": "policy_denied"} if is_error else {"to": "bob"}
    return events.ToolCallResult(tool_call_id=call_id, result=result, is_error=is_error)


def a_text(message_id: str, delta: str, parent: str | None = None) -> events.TextDelta:
    return events.TextDelta(message_id=message_id, delta=delta, parent_tool_call_id=parent)


def a_thought(message_id: str, delta: str) -> events.ThinkingDelta:
    return events.ThinkingDelta(message_id=message_id, delta=delta)
