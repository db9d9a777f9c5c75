"""CSV export: content negotiation, and lines that are safe in spreadsheets."""

import csv
import io
from collections.abc import Iterable
from typing import Any

CSV = "text/csv"
JSON = "application/json"

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def prefers_csv(accept: str) -> bool:
    """Whether `Accept` includes CSV, with at least the quality of JSON."""
    qualities = dict(_quality(entry) for entry in accept.lower().split(","))
    return qualities.get(CSV, 0.0) > 0 and qualities[CSV] >= qualities.get(JSON, 0.0)


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


def _escape_formula(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    return value
