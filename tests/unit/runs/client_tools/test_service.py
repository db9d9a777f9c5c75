import pytest

from app.events import ClientEvent, ClientToolCall, RunStarted, ToolCallResult
from app.runs.client_tools.service import waiting_calls
from app.streams.port import LogEntry

STARTED = RunStarted(run_id="r", graph_id="claude_agents:g", model="m", attempt=0)
DONE = ToolCallResult(tool_call_id="a", result="x", is_error=False)


def call(call_id: str) -> ClientToolCall:
    return ClientToolCall(tool_call_id=call_id, tool_name="pick", args={}, expires_at="later")


@pytest.mark.parametrize(
    ("events", "waiting"),
    [
        ([STARTED], set()),
        ([STARTED, call("a"), call("b")], {"a", "b"}),
        ([STARTED, call("a"), call("b"), DONE], {"b"}),
        ([STARTED, call("a"), STARTED], set()),
        ([STARTED, call("a"), STARTED, call("b")], {"b"}),
    ],
)
def test_calls_wait_until_they_have_a_result_or_another_attempt_begins(
    events: list[ClientEvent], waiting: set[str]
) -> None:
    assert waiting_calls([LogEntry(n, event) for n, event in enumerate(events, start=1)]) == waiting
