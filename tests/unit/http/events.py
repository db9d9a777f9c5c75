"""Events of runs, as all wires get them."""

from typing import Any

from app import events
from app.requests.outcome import FinalUsage
from app.streams.port import LogEntry

STARTED = events.RunStarted(run_id="r-1", graph_id="claude_agents:assistant", model="sonnet", attempt=1)
DONE = events.Done(usage=FinalUsage(prompt_tokens=10, completion_tokens=5), finish_reason="stop")
STEP = events.Step(step_index=1, step_budget=None)
CALL = events.ToolCallStart(tool_call_id="toolu_1", tool_name="office__send_mail", args={"to": "bob"})
REQUEST = events.PermissionRequest(
    request_id="p-1",
    tool_call_id="toolu_1",
    tool_name="office__send_mail",
    args={"to": "bob"},
    expires_at="2026-11-21T12:00:00Z",
)
BUDGET = events.BudgetReached(request_id="b-1", expires_at="2026-11-21T12:00:00Z")
RESOLVED = events.PermissionResolved(request_id="p-1", decision="allow", reason="decided")
QUESTION = events.QuestionAsked(
    request_id="q-1",
    source="office",
    questions=(events.QuestionItem(question="Which color?", options=(), multi_select=False),),
    expires_at="2026-11-21T12:00:00Z",
)
ANSWERED = events.QuestionResolved(request_id="q-1", resolved_by="answered", answers=(("Red",),))
RESULT = events.ToolCallResult(tool_call_id="toolu_1", result="sent", is_error=False)


def entries_of(*given: events.ClientEvent) -> list[LogEntry]:
    """The log of these events."""
    return [LogEntry(position, event) for position, event in enumerate(given, start=1)]


def client_call_start(call_id: str) -> events.ToolCallStart:
    """The model has called a tool of the client."""
    return events.ToolCallStart(tool_call_id=call_id, tool_name="pick", args={"n": 1}, is_client_tool=True)


def client_call(call_id: str) -> events.ClientToolCall:
    """The client is to execute it."""
    return events.ClientToolCall(tool_call_id=call_id, tool_name="pick", args={"n": 1}, expires_at="later")


def client_result(call_id: str, value: Any = "blue", *, is_error: bool = False) -> events.ToolCallResult:
    """What the client has answered."""
    return events.ToolCallResult(tool_call_id=call_id, result=value, is_error=is_error)
