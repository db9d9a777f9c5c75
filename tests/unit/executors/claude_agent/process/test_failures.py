import pytest
from claude_agent_sdk import CLIConnectionError, CLIJSONDecodeError, ProcessError

from app.executors.claude_agent.process.failures import OutputEnded, failure_of
from app.executors.port import AgentFailure

BROKEN = CLIJSONDecodeError("{garbage", ValueError("x"))
TOO_LONG = CLIJSONDecodeError("JSON message exceeded maximum buffer size of 1 bytes", ValueError("x"))


@pytest.mark.parametrize(
    ("error", "at_start", "later"),
    [
        (BROKEN, "line_broken", "line_broken"),
        (TOO_LONG, "line_too_long", "line_too_long"),
        (ProcessError("x", exit_code=-9), "killed", "killed"),
        (ProcessError("x", exit_code=137), "killed", "killed"),
        (ProcessError("x", exit_code=1), "not_started", "exited"),
        (CLIConnectionError("x"), "not_started", "disconnected"),
        (OutputEnded("x"), "not_started", "disconnected"),
        (TimeoutError("x"), "not_started", None),
    ],
)
def test_each_failure_has_one_name(
    error: Exception, at_start: AgentFailure, later: AgentFailure | None
) -> None:
    assert failure_of(error, connected=False) == at_start
    assert failure_of(error, connected=True) == later
