import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.http.streaming.csv_table import CSV, csv_line, prefers


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("text/csv", True),
        ("TEXT/CSV; charset=utf-8", True),
        ("text/csv, application/json;q=0.9", True),
        ("application/json, text/csv", True),
        ("application/json, text/csv;q=0.5", False),
        ("text/csv;q=0", False),
        ("text/csv;q=much", False),
        ("text/csvx", False),
        ("*/*", False),
        ("text/html,application/xhtml+xml,*/*;q=0.8", False),
        ("", False),
    ],
)
def test_csv_needs_to_be_accepted(accept: str, wanted: bool) -> None:  # noqa: FBT001
    assert prefers(CSV, accept) is wanted


@pytest.mark.parametrize(
    "start", ["=", "+", "-", "@", "\t", "\r", "\n", " =", "\ufeff@", "\uff1d", "-1+", "-1e"]
)
def test_texts_are_escaped_against_formulas(start: str) -> None:
    (cell,) = next(csv.reader(io.StringIO(csv_line([f"{start}cmd()"]), newline="")))

    assert cell == f"'{start}cmd()"


def test_numbers_and_null_stay_unchanged() -> None:
    assert csv_line([-1, None, "-0.0027500000", 'say "hi", now']) == '-1,,-0.0027500000,"say ""hi"", now"\r\n'


@given(st.lists(st.text(), min_size=2))
def test_a_line_is_one_row_for_any_values(values: list[str]) -> None:
    (row,) = csv.reader(io.StringIO(csv_line(values), newline=""))

    assert [cell.removeprefix("'") for cell in row] == [value.removeprefix("'") for value in values]
