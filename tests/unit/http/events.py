"""Events of runs, as all wires get them."""

from typing import Any

from app.events import (
    BudgetReached,
    ClientEvent,
    ClientToolCall,
    Done,
    PermissionRequest,
    PermissionResolved,
    QuestionAsked,
    QuestionItem,
    QuestionResolved,
    RunStarted,
    Step,
    ToolCallResult,
    ToolCallStart,
)
from app.requests.outcome import FinalUsage
from app.streams.port import LogEntry

STARTED = RunStarted(run_id="r-1", graph_id="claude_agents:assistant", model="sonnet", attempt=1)
DONE = Done(usage=FinalUsage(prompt_tokens=10, completion_tokens=5), finish_reason="stop")
STEP = Step(step_index=1, step_budget=None)
CALL = ToolCallStart(tool_call_id="toolu_1", tool_name="office__send_mail", args={"to": "bob"})
REQUEST = PermissionRequest(
    request_id="p-1",
    tool_call_id="toolu_1",
    tool_name="office__send_mail",
    args={"to": "bob"},
    expires_at="2026-11-21T12:00:00Z",
)
BUDGET = BudgetReached(request_id="b-1", expires_at="2026-11-21T12:00:00Z")
RESOLVED = PermissionResolved(request_id="p-1", decision="allow", reason="decided")
QUESTION = QuestionAsked(
    request_id="q-1",
    source="office",
    questions=(QuestionItem(question="Which color?", options=(), multi_select=False),),
    expires_at="2026-11-21T12:00:00Z",
)
ANSWERED = QuestionResolved(request_id="q-1", resolved_by="answered", answers=(("Red",),))
RESULT = ToolCallResult(tool_call_id="toolu_1", result="sent", is_error=False)


def entries_of(*events: ClientEvent) -> list[LogEntry]:
    """The log of these events."""
    return [LogEntry(position, event) for position, event in enumerate(events, start=1)]


def client_call_start(call_id: str) -> ToolCallStart:
    """The model has called a tool of the client."""
    return ToolCallStart(tool_call_id=call_id, tool_name="pick", args={"n": 1}, is_client_tool=True)


def client_call(call_id: str) -> ClientToolCall:
    """The client is to execute it."""
    return ClientToolCall(tool_call_id=call_id, tool_name="pick", args={"n": 1}, expires_at="later")


def client_result(call_id: str, value: Any = "blue", *, is_error: bool = False) -> ToolCallResult:
    """What the client has answered."""
    return ToolCallResult(tool_call_id=call_id, result=value, is_error=is_error)
