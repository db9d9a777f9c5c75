"""How a command ends when something is wrong: a sentence and an exit code, never a traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from app.billing.journal import JournalFailed
from app.billing.price_file import PriceFileError
from app.embedded import EmbeddedPostgresFailed
from app.errors import AppError, Invalid, NotFound, Unauthenticated
from app.executors.catalog import GraphDefinitionError
from app.executors.claude_agent.cli import CliMissing
from app.executors.model_file import ModelFileError
from app.settings import SettingsError
from app.tools.catalog import ToolCatalogError
from app.tools.tool import ToolDefinitionError

stderr = Console(stderr=True, highlight=False)

EXIT_FAILED = 1
EXIT_USAGE = 2

_OPERATOR_ERRORS = (
    SettingsError,
    GraphDefinitionError,
    ToolCatalogError,
    ToolDefinitionError,
    EmbeddedPostgresFailed,
    CliMissing,
    JournalFailed,
    PriceFileError,
    ModelFileError,
)


@contextmanager
def explained() -> Iterator[None]:
    """Turn what an operator can mend into its sentence."""
    try:
        yield
    except _OPERATOR_ERRORS as error:
        stderr.print(str(error), style="red", markup=False)
        raise typer.Exit(EXIT_FAILED) from error
    except AppError as error:
        stderr.print(error.detail, style="red", markup=False)
        usage = isinstance(error, Invalid | NotFound | Unauthenticated)
        raise typer.Exit(EXIT_USAGE if usage else EXIT_FAILED) from error
