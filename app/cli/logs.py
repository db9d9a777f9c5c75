"""Logging to standard error: text on a terminal, JSON elsewhere."""

import contextlib
import logging
import sys
from io import TextIOBase
from typing import TextIO, cast

import structlog

from app.cli.terminal import sanitized

_MULTILINE_FIELDS = ("exception", "stack")


class _LossyStream(TextIOBase):
    """A stream that drops what cannot be written: a full disk must not end a run."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write as much as possible."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush as much as possible."""
        with contextlib.suppress(OSError):
            self._stream.flush()


def renderers(*, for_terminal: bool) -> list[structlog.typing.Processor]:
    """The processors that format a log entry; JSON escapes control characters anyway."""
    if not for_terminal:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    # Plain tracebacks: the formatted ones print local variables, which may hold secrets.
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    return [structlog.processors.format_exc_info, _sanitize_fields, plain]


def _sanitize_fields(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Escape control characters and line breaks in untrusted values (log injection)."""
    for name, value in event.items():
        if isinstance(value, str):
            # Lines of a traceback are indented, so that none looks like a log line.
            break_ = "\n  " if name in _MULTILINE_FIELDS else "\\n"
            event[name] = sanitized(value).replace("\n", break_)
    return event


def configure_logs() -> None:
    """Configure logging once, at the start of a command that serves."""
    stream = cast("TextIO", _LossyStream(sys.stderr))
    rendering = renderers(for_terminal=sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(stream),
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *rendering,
        ],
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
