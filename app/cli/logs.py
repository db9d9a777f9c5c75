"""Where log lines go: standard error, readable on a terminal, JSON everywhere else."""

import contextlib
import logging
import sys
from io import TextIOBase
from typing import TextIO, cast

import structlog

from app.cli.terminal import sanitized

_MULTILINE_FIELDS = ("exception", "stack")


class _LossyStream(TextIOBase):
    """A stream that drops what cannot be written: no run may end because the log's disk is full."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write as much as goes."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush as much as goes."""
        with contextlib.suppress(OSError):
            self._stream.flush()


def renderers(*, for_terminal: bool) -> list[structlog.typing.Processor]:
    """What makes a line of what was logged; in JSON everything beyond ASCII is escaped anyway."""
    if not for_terminal:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    # Plain tracebacks: the pretty ones print local variables, and some of those are secrets.
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    return [structlog.processors.format_exc_info, _sanitize_fields, plain]


def _sanitize_fields(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Nothing that others wrote steers the terminal or poses as a line of the log."""
    for name, value in event.items():
        if isinstance(value, str):
            # Tracebacks have lines, and each is told from a line of the log by where it begins.
            break_ = "\n  " if name in _MULTILINE_FIELDS else "\\n"
            event[name] = sanitized(value).replace("\n", break_)
    return event


def configure_logs() -> None:
    """Set up once, at the start of a command that serves."""
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
