"""CSV export: content negotiation, and lines that are safe in spreadsheets."""

import csv
import io
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from fastapi import Depends, Header, Query

from app.http.response_model import ResponseModel
from app.http.streaming.line_export import LineExport
from app.http.streaming.sse import ReaderScope

CSV = "text/csv"
JSON = "application/json"

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Also in full width, as some programs read them."""

_IGNORED = " \u00a0\ufeff"
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


_Record = TypeVar("_Record")

PageAfter: TypeAlias = Callable[
    [str | None], Awaitable[tuple[tuple[Sequence[_Record], str | None], datetime | None]]
]
"""Reads the page after a cursor: records, the next cursor, and until when the database has everything."""


async def _wants_csv(
    format_: Annotated[
        Literal["json", "csv"] | None, Query(alias="format", description="Takes precedence over `Accept`.")
    ] = None,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
) -> bool:
    return format_ == "csv" or (format_ is None and prefers(CSV, accept))


WantsCsv: TypeAlias = Annotated[bool, Depends(_wants_csv)]
"""The parameter `format` of a list that is also exported."""


async def csv_of_pages(
    page_after: PageAfter[_Record],
    model: type[ResponseModel],
    shown: Callable[[_Record], ResponseModel],
    *,
    filename: str,
    reader_scope: ReaderScope,
) -> LineExport:
    """All pages of a list as CSV, with the fields of its JSON as columns."""
    # Read before the response begins, so that an error can still be a problem document.
    (page, cursor), as_of = await page_after(None)

    def rows() -> str:
        found = (shown(record).model_dump(mode="json", by_alias=True) for record in page)
        return "".join(csv_line(map(_cell, row.values())) for row in found)

    async def lines() -> AsyncIterator[str]:
        nonlocal page, cursor
        yield csv_line(field.alias or name for name, field in model.model_fields.items())
        yield rows()
        while cursor is not None:
            (page, cursor), _ = await page_after(cursor)
            yield rows()

    return LineExport(lines(), media_type=CSV, filename=filename, reader_scope=reader_scope, as_of=as_of)


def prefers(media_type: str, accept: str) -> bool:
    """Whether `Accept` includes a media type, with at least the quality of JSON."""
    qualities = dict(_quality(entry) for entry in accept.lower().split(","))
    return qualities.get(media_type, 0.0) > 0 and qualities[media_type] >= qualities.get(JSON, 0.0)


def csv_line(values: Iterable[Any]) -> str:
    """One line of CSV; spreadsheets will not interpret any text as a formula."""
    line = io.StringIO()
    csv.writer(line).writerow([_escape_formula(value) for value in values])
    return line.getvalue()


def _quality(entry: str) -> tuple[str, float]:
    media_type, *parameters = (part.strip() for part in entry.split(";"))
    pairs = (parameter.partition("=") for parameter in parameters)
    weight = next((value for name, _, value in pairs if name.strip() == "q"), "1")
    try:
        return media_type, float(weight)
    except ValueError:
        return media_type, 0.0


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value


def _escape_formula(value: Any) -> Any:
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        # Amounts that are given back are negative, and must be summed.
        return value
    return f"'{value}" if value.lstrip(_IGNORED).startswith(_FORMULA_STARTS) else value
