"""Reports errors of commands as a sentence and an exit code, without a traceback."""

import asyncio
import errno
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import typer
from typer.models import CommandFunctionType

from app.cli.terminal import Terminal, print_words
from app.errors import AppError, Invalid, NotFound, OperatorError, Unauthenticated
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


class Commands(typer.Typer):
    """Commands whose errors are `explained`; those that are coroutines are run."""

    def command(self, *args: Any, **options: Any) -> Callable[[CommandFunctionType], CommandFunctionType]:
        register = super().command(*args, **options)

        def explaining(function: CommandFunctionType) -> CommandFunctionType:
            runnable = _run(function) if iscoroutinefunction(function) else function
            register(explained()(runnable))
            return function

        return explaining


def _run(function: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(function)
    def run(*args: Any, **options: Any) -> None:
        asyncio.run(function(*args, **options))

    return run


@contextmanager
def explained() -> Iterator[None]:
    """Print an error that an operator can fix and exit with its code."""
    try:
        with _unwrapped():
            yield
            _flush()
    except (typer.Exit, typer.BadParameter):
        raise
    except client_errors.RuntallyError as error:
        print_words(stderr, str(error), style="red")
        raise typer.Exit(EXIT_USAGE if isinstance(error, _USAGE_OF_CLIENT) else EXIT_FAILED) from error
    except Exception as error:
        if (explanation := _explanation(error)) is None:
            raise
        print_words(stderr, explanation, style="red")
        usage = isinstance(error, Invalid | NotFound | Unauthenticated)
        raise typer.Exit(EXIT_USAGE if usage else EXIT_FAILED) from error


def _explanation(error: Exception) -> str | None:
    """What an operator can do about it; None if nothing."""
    # Here, because it takes 0.3 s: longer than commands take that succeed, and have no database.
    from app.platform.db import DatabaseUnavailable, StatementFailed  # noqa: PLC0415

    match error:
        case OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EFBIG):
            return f"What is printed or stored has no space: {error.strerror}."
        case OSError(filename=str() | Path() as path):
            return f"{path} cannot be used: {error.strerror}; correct its owner, its permissions or the path."
        case OperatorError() | StatementFailed():
            return str(error)
        case DatabaseUnavailable(reason=reason) if reason:
            return f"{error.detail} ({reason})"
        case AppError():
            return error.detail
    return None


def run_commands(commands: typer.Typer) -> None:
    """Run a command line as a program, to its exit code."""
    try:
        # Commands explain their own errors, and not those of options that are handled before them.
        with explained():
            commands()
    except typer.Exit as ended:
        sys.exit(ended.exit_code)
    finally:
        _drop_unprinted()


def _drop_unprinted() -> None:
    """Print what waits; if that fails it was reported: at its exit Python would do it again."""
    try:
        _flush()
    except OSError:
        with Path(os.devnull).open("wb") as nothing:
            os.dup2(nothing.fileno(), sys.stdout.fileno())


def _flush() -> None:
    # A program that was started without standard output has none.
    typer.echo("", nl=False)


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
