"""Reports errors of commands as a sentence and an exit code, without a traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from app.cli.terminal import Terminal
from app.errors import AppError, Invalid, NotFound, OperatorError, Unauthenticated
from app.platform.db import DatabaseUnavailable, StatementFailed
from runtally import errors as client_errors

stderr = Terminal(stderr=True, highlight=False)

EXIT_FAILED = 1
EXIT_USAGE = 2

_USAGE_OF_CLIENT = (
    client_errors.ConfigurationError,
    client_errors.InvalidRequest,
    client_errors.NotFound,
    client_errors.Unauthenticated,
)


@contextmanager
def explained() -> Iterator[None]:
    """Print an error that an operator can fix and exit with its code."""
    try:
        with _unwrapped():
            yield
    except (OperatorError, StatementFailed) as error:
        stderr.print(str(error), style="red", soft_wrap=True)
        raise typer.Exit(EXIT_FAILED) from error
    except client_errors.RuntallyError as error:
        stderr.print(str(error), style="red", markup=False)
        raise typer.Exit(EXIT_USAGE if isinstance(error, _USAGE_OF_CLIENT) else EXIT_FAILED) from error
    except AppError as error:
        reason = f" ({error.reason})" if isinstance(error, DatabaseUnavailable) and error.reason else ""
        stderr.print(error.detail + reason, style="red", soft_wrap=True)
        usage = isinstance(error, Invalid | NotFound | Unauthenticated)
        raise typer.Exit(EXIT_USAGE if usage else EXIT_FAILED) from error


@contextmanager
def _unwrapped() -> Iterator[None]:
    """Raise the only error of a group itself: task groups wrap what ends them."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None
