"""CSV exports: content negotiation, and lines that are safe in spreadsheets."""

import csv
import io
import json
import re
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import Depends, Header, Query

CSV = "text/csv"
JSON = "application/json"

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Also in full width, as some programs read them."""

_IGNORED = " \u00a0\ufeff"
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


async def _wants_csv(
    format_: Annotated[
        Literal["json", "csv"] | None, Query(alias="format", description="Takes precedence over `Accept`.")
    ] = None,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
) -> bool:
    return format_ == "csv" or (format_ is None and prefers(CSV, accept))


WantsCsv: TypeAlias = Annotated[bool, Depends(_wants_csv)]
"""The parameter `format` of a list that is also exported."""


def prefers(media_type: str, accept: str) -> bool:
    """Whether `Accept` includes a media type, with at least the quality of JSON."""
    qualities = dict(_quality(entry) for entry in accept.lower().split(","))
    return qualities.get(media_type, 0.0) > 0 and qualities[media_type] >= qualities.get(JSON, 0.0)


class CsvTable:
    """Writes a table as CSV."""

    media_type = CSV
    suffix = "csv"

    def __init__(self, columns: Iterable[str]) -> None:
        self._columns = columns

    def start(self) -> str:
        """The names of the columns."""
        return csv_line(self._columns)

    def add(self, rows: Iterable[Iterable[Any]]) -> str:
        return "".join(csv_line(map(_cell, row)) for row in rows)

    def end(self) -> str:
        """Nothing: CSV has no end."""
        return ""


def csv_line(values: Iterable[Any]) -> str:
    """One line of CSV; spreadsheets will not interpret any text as a formula."""
    line = io.StringIO()
    csv.writer(line).writerow([_escape_formula(value) for value in values])
    return line.getvalue()


def _cell(value: Any) -> Any:
    match value:
        case dict() | list():
            return json.dumps(value)
        case datetime():
            return value.strftime("%Y-%m-%dT%H:%M:%SZ")
        case Decimal():
            # Without an exponent, which spreadsheets round.
            return f"{value:f}"
        case _:
            return value


def _quality(entry: str) -> tuple[str, float]:
    media_type, *parameters = (part.strip() for part in entry.split(";"))
    pairs = (parameter.partition("=") for parameter in parameters)
    weight = next((value for name, _, value in pairs if name.strip() == "q"), "1")
    try:
        return media_type, float(weight)
    except ValueError:
        return media_type, 0.0


def _escape_formula(value: Any) -> Any:
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        # Amounts that are given back are negative, and must be summed.
        return value
    return f"'{value}" if value.lstrip(_IGNORED).startswith(_FORMULA_STARTS) else value
