"""`runtally export`: bills of the account at RUNTALLY_URL in the formats of other tools."""

import sys
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

import typer

from app.cli.errors import Commands

exports = Commands(help="Bills in the formats of other tools: focus.", no_args_is_help=True)

_DAY = ["%Y-%m-%d"]


class ExportFormat(StrEnum):
    """The file formats of tables."""

    CSV = "csv"
    PARQUET = "parquet"


@exports.callback()
def _all_exports() -> None:
    """With one command alone, its name could be left out, and not once there are two."""


@exports.command("focus")
async def export_focus(
    since: Annotated[datetime, typer.Option("--from", formats=_DAY, help="The first day (UTC).")],
    until: Annotated[datetime, typer.Option("--to", formats=_DAY, help="The last day (UTC).")],
    format_: Annotated[ExportFormat, typer.Option("--format", help="The file format.")] = ExportFormat.CSV,
) -> None:
    """Write the charges of a period in FOCUS 1.2 to standard output."""
    from app.cli.client import export

    first, end = (day.replace(tzinfo=UTC).isoformat() for day in (since, until + timedelta(days=1)))
    await export(sys.stdout.buffer, "focus", **{"from": first, "to": end, "format": format_.value})
