"""How a CLI fails: one name for each way, and the last lines it wrote to standard error."""

import logging
import signal
from collections import deque

from claude_agent_sdk import ClaudeSDKError, CLIJSONDecodeError, ProcessError

from app.executors.port import AgentFailure
from app.storable import storable

STDERR_LINES = 20
STDERR_CHARS = 1_000
"""Limit of a line of standard error; the rest is dropped."""

_TOO_LONG = "maximum buffer size"
_KILLED = {-signal.SIGKILL, 128 + signal.SIGKILL}
"""Exit codes: of the CLI itself, and of a sandbox whose CLI was killed."""


def _is_not_raised(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("Fatal error in message reader")


# The SDK raises it as well: whether it is an error is decided where the process is used.
logging.getLogger("claude_agent_sdk._internal.query").addFilter(_is_not_raised)


class CliFailed(Exception):
    """The CLI could not be started, died, or sent something that cannot be parsed."""

    def __init__(self, reason: str, failure: AgentFailure | None = None) -> None:
        """`reason` is for the log only; `failure` is None if it is not the CLI that failed."""
        self.failure = failure
        super().__init__(reason)


class OutputEnded(ClaudeSDKError):
    """The CLI's output has ended without a result."""


class StderrTail:
    """The last lines the CLI wrote to stderr; for the operator's log only."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=STDERR_LINES)

    def append(self, line: str) -> None:
        """Add a line; `ClaudeAgentOptions.stderr` takes this method."""
        self.lines.append(storable(line[:STDERR_CHARS]))


def failure_of(error: Exception, *, connected: bool) -> AgentFailure | None:
    """How the CLI failed; None for an error of our own. `connected`: it had answered before."""
    match error:
        case CLIJSONDecodeError():
            return "line_too_long" if _TOO_LONG in str(error) else "line_broken"
        case ProcessError(exit_code=code) if code in _KILLED:
            return "killed"
        case _ if not connected:
            return "not_started"
        case ProcessError():
            return "exited"
        case ClaudeSDKError():
            return "disconnected"
        case _:
            return None
