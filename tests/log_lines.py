"""The log as a server writes it, for tests."""

import contextlib
import io
import json
import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any

import structlog

from app.cli.logs import LogFormat, LogLevel, configure_logs


class Written(io.StringIO):
    """What was written to standard error."""

    def lines(self) -> list[dict[str, Any]]:
        """Each line of a log in JSON."""
        return [json.loads(line) for line in self.getvalue().splitlines()]

    def of(self, event: str) -> list[dict[str, Any]]:
        """The lines of one event."""
        return [line for line in self.lines() if line["event"] == event]


@contextlib.contextmanager
def written_log(log_format: LogFormat = "json", level: LogLevel = "info") -> Iterator[Written]:
    """Configure logging as `runtally serve` does, and undo it afterwards."""
    before, handlers, threshold = structlog.get_config(), logging.root.handlers[:], logging.root.level
    hooks = sys.excepthook, threading.excepthook, sys.unraisablehook
    written = Written()
    try:
        with contextlib.redirect_stderr(written):
            configure_logs(log_format, level)
            yield written
    finally:
        structlog.configure(**before)
        logging.captureWarnings(capture=False)
        logging.root.handlers[:] = handlers
        logging.root.setLevel(threshold)
        sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
