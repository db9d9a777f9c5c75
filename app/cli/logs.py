"""Logging to standard error: text for people on a terminal, one JSON object per line elsewhere."""

import contextlib
import logging
import math
import os
import re
import sys
import threading
from collections.abc import Mapping, Sequence
from io import TextIOBase
from types import TracebackType
from typing import Any, Literal, TextIO, TypeAlias, cast

import structlog

from app.cli.terminal import sanitized
from app.platform.logs.context import add_context
from app.platform.logs.secrets import without_secrets_of_context

LogFormat: TypeAlias = Literal["auto", "console", "json"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error", "critical"]

log = structlog.get_logger(__name__)

_MULTILINE_FIELDS = ("exception", "stack")
_MOST_CHARS = 262_144
"""Of a field. Receipts and records of the journal that an operator must have whole are smaller."""

_MOST_ITEMS = 1000
_DEEPEST = 8
_NAME_CHARS = 64
_UNSAFE_IN_NAME = re.compile(r"[^A-Za-z0-9_.@-]")


class _LossyStream(TextIOBase):
    """A stream that drops what cannot be written: a full disk must not end a run."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def write(self, text: str) -> int:
        """Write as much as possible. Lines of several threads do not mix."""
        with self._lock, contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._stream.flush()


class _Handler(logging.StreamHandler[TextIO]):
    """Writes the records of libraries."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        """Log that a record cannot be formatted; logging itself would print its arguments as they are."""
        log.warning("log.record_invalid", logger=record.name, line=record.lineno)


def renderers(*, for_people: bool, colors: bool = False) -> list[structlog.typing.Processor]:
    """The processors that format a log entry; what they return contains no control character of a value."""
    traceback = structlog.processors.format_exc_info
    if not for_people:
        return [traceback, _clean, structlog.processors.JSONRenderer()]
    # Plain tracebacks: the formatted ones print local variables, which may hold secrets.
    plain = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)
    return [traceback, _clean, _on_one_line, plain]


def configure_logs(
    log_format: LogFormat = "auto",
    level: LogLevel = "info",
    *,
    process: str | None = None,
    is_terminal: bool | None = None,
) -> None:
    """Configure logging once, at the start of a command that serves.

    Libraries log warnings and worse at any level: their details may contain requests. Lines name `process`.
    `is_terminal`: whether the lines are shown on one; None finds out.
    """
    stream = cast("TextIO", _LossyStream(sys.stderr))
    is_terminal = sys.stderr.isatty() if is_terminal is None else is_terminal
    for_people = is_terminal if log_format == "auto" else log_format == "console"
    rendering = renderers(for_people=for_people, colors=is_terminal and not os.environ.get("NO_COLOR"))
    threshold = logging.getLevelNamesMapping()[level.upper()]
    shared: list[structlog.typing.Processor] = [
        add_context,
        *(() if process is None else (_naming(process),)),
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(stream),
    )
    handler = _Handler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    logging.basicConfig(level=max(threshold, logging.WARNING), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    _log_what_nothing_catches()


def _naming(process: str) -> structlog.typing.Processor:
    def add(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        return {**event, "server_process": process}

    return add


def _log_what_nothing_catches() -> None:
    """Python would print these tracebacks as they are: with the control characters of their messages."""

    def crashed(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            return
        log.critical("process.exception_uncaught", exc_info=(kind, error, trace))

    sys.excepthook = crashed
    threading.excepthook = lambda args: crashed(args.exc_type, args.exc_value, args.exc_traceback)
    sys.unraisablehook = lambda args: crashed(args.exc_type, args.exc_value, args.exc_traceback)


def _clean(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Replace control characters in names and values, whatever they are from (log injection)."""
    return {_clean_name(name): _cleaned(value, _DEEPEST) for name, value in event.items()}


def _clean_name(name: object) -> str:
    return _UNSAFE_IN_NAME.sub("_", str(name))[:_NAME_CHARS]


def _cleaned(value: object, depth: int) -> Any:
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case str():
            return _clean_text(value)
        case Mapping() if depth:
            items = list(value.items())[:_MOST_ITEMS]
            return {_clean_text(str(name)): _cleaned(item, depth - 1) for name, item in items}
        case Sequence() | set() | frozenset() if depth and not isinstance(value, bytes | bytearray):
            return [_cleaned(item, depth - 1) for item in list(value)[:_MOST_ITEMS]]
        case _:
            return _clean_text(_described(value))


def _described(value: object) -> str:
    try:
        return str(value) if isinstance(value, BaseException) else repr(value)
    except Exception as error:  # noqa: BLE001 - a line must not fail because of a value
        return f"<{type(value).__name__}: {type(error).__name__}>"


def _clean_text(text: str) -> str:
    text = without_secrets_of_context(text)
    left = len(text) - _MOST_CHARS
    return sanitized(text if left <= 0 else f"{text[:_MOST_CHARS]}… ({left} more characters)")


def _on_one_line(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Escape line breaks; the renderer quotes values that would look like several fields."""
    for name, value in event.items():
        if name in _MULTILINE_FIELDS:
            # Lines of a traceback are indented, so that none looks like a log line.
            event[name] = "  " + str(value).replace("\n", "\n  ")
        elif isinstance(value, str):
            event[name] = value.replace("\n", "\\n").replace("\t", "\\t")
    return event
