from pathlib import Path

import pytest
from claude_agent_sdk import ClaudeAgentOptions, CLIConnectionError, CLIJSONDecodeError, ProcessError
from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport

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


async def test_the_sdk_says_that_a_line_is_too_long(tmp_path: Path) -> None:
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\nprintf '{%02000d\\n' 0\n")
    program.chmod(0o700)
    options = ClaudeAgentOptions(cli_path=program, max_buffer_size=1_000)
    transport = SubprocessCLITransport(prompt="", options=options)
    await transport.connect()
    with pytest.raises(CLIJSONDecodeError) as raised:
        async for _ in transport.read_messages():
            pass
    await transport.close()

    assert failure_of(raised.value, connected=False) == "line_too_long"
