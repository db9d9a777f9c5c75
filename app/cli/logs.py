"""Where log lines go: standard error, readable on a terminal, JSON everywhere else."""

import logging
import sys

import structlog


def configure_logs() -> None:
    """Set up once, at the start of a command that serves."""
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
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *exceptions,
            renderer,
        ],
    )
    stream = logging.StreamHandler(sys.stderr)
    stream.setFormatter(formatter)
    logging.basicConfig(level=logging.WARNING, handlers=[stream], force=True)
