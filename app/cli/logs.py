"""Where log lines go: standard error, readable on a terminal, JSON everywhere else."""

import contextlib
import logging
import sys
from io import TextIOBase
from typing import TextIO, cast

import structlog


class _Forgiving(TextIOBase):
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


def configure_logs() -> None:
    """Set up once, at the start of a command that serves."""
    stream = cast("TextIO", _Forgiving(sys.stderr))
    # Plain tracebacks: the pretty ones print local variables, and some of those are secrets.
    renderer = (
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        if sys.stderr.isatty()
        else structlog.processors.JSONRenderer()
    )
    exceptions = [] if sys.stderr.isatty() else [structlog.processors.format_exc_info]
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, *exceptions, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(stream),
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *exceptions,
            renderer,
        ],
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
