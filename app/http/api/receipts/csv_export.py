"""Receipts for spreadsheets: when they are wanted, and lines that do no harm there."""

import csv
import io
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractContextManager
from typing import Any

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

CSV = "text/csv"
JSON = "application/json"

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


class CsvExport(StreamingResponse):
    """Lines as an attachment. One that is cut short never ends in order: so its client learns of it."""

    def __init__(
        self, lines: AsyncIterator[str], *, filename: str, within: AbstractContextManager[None]
    ) -> None:
        """`within` is what it lasts within: the reader has a place, and the credential is valid."""
        headers = {"Content-Disposition": f'attachment; filename="{filename}"', "Vary": "Accept"}
        super().__init__(lines, media_type=CSV, headers=headers)
        self._within = within

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond; raises what `within` raises."""
        with self._within:
            await super().__call__(scope, receive, send)


def wants_csv(accept: str) -> bool:
    """Whether `Accept` names CSV, and no less eagerly than JSON."""
    wishes = dict(_wish(entry) for entry in accept.lower().split(","))
    return wishes.get(CSV, 0.0) > 0 and wishes[CSV] >= wishes.get(JSON, 0.0)


def csv_line(values: Iterable[Any]) -> str:
    """One line of CSV; no text can pose as a spreadsheet's formula."""
    line = io.StringIO()
    csv.writer(line).writerow([_harmless(value) for value in values])
    return line.getvalue()


def _wish(entry: str) -> tuple[str, float]:
    media_type, *parameters = (part.strip() for part in entry.split(";"))
    pairs = (parameter.partition("=") for parameter in parameters)
    weight = next((value for name, _, value in pairs if name.strip() == "q"), "1")
    try:
        return media_type, float(weight)
    except ValueError:
        return media_type, 0.0


def _harmless(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    return value
