"""What commands print: untrusted text without its control sequences, and tables that fit the terminal."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.status import Status
from rich.table import Table

from app.storable import REPLACEMENT, storable

AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]

_LEAST_TEXT = 12
"""Columns of text are not narrower in a table."""

_ANY_WIDTH = 10_000

_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?|[\d-]{10} \d\d:\d\d|\D*")
"""A number, a moment, or words in its place."""

_DIGIT = re.compile(r"\d")

# Control characters except line breaks and tabs, and characters that change the text direction.
_CONTROL_CHARACTERS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def sanitized(text: str) -> str:
    """The text without control characters; its length stays the same."""
    return _CONTROL_CHARACTERS.sub(REPLACEMENT, storable(text))


class Terminal(Console):
    """A console whose escape sequences come from styles only.

    Text is never read as markup of rich, which could contain links and styles.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, **options})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """See rich; everything printed passes through here, also inside a table."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(sanitized(segment.text), segment.style)


def print_rows(console: Console, rows: Sequence[Mapping[str, str]], *, title: str | None = None) -> None:
    """Print rows with the same columns as a table; in a narrow terminal one below the other.

    No number is ever cut or broken. Columns that are empty are left out.
    """
    if not rows:
        Terminal(stderr=True).print(f"{title or 'Found'}: none", style="dim")
        return
    columns = [column for column in rows[0] if any(row[column] for row in rows)]
    table = _table(rows, columns, title)
    needed = Measurement.get(console, console.options.update_width(_ANY_WIDTH), table).minimum
    if needed <= console.width:
        console.print(table)
        return
    if title is not None:
        console.print(title, style="italic")
    for row in rows:
        console.print()
        for column in filter(row.get, columns):
            if _DIGIT.search(row[column]) and _NUMBER.fullmatch(row[column]):
                console.print(f"{column}: {row[column]}", soft_wrap=True)
            else:
                print_words(console, f"{column}: {row[column]}")


def _table(rows: Sequence[Mapping[str, str]], columns: Sequence[str], title: str | None) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        values = [row[column] for row in rows]
        if all(map(_NUMBER.fullmatch, values)) and any(map(_DIGIT.search, values)):
            table.add_column(column, justify="right", no_wrap=True)
        else:
            widest = max(len(line) for value in values for line in value.splitlines() or [""])
            table.add_column(column, overflow="fold", min_width=min(_LEAST_TEXT, widest))
    for row in rows:
        table.add_row(*(row[column] for column in columns))
    return table


def print_entries(console: Console, entries: Iterable[tuple[str, str]], *, title: str = "") -> None:
    """Print an id and, below it, what is known of it: an id is a line, so that it can be copied."""
    found = [*entries]
    if not found:
        Terminal(stderr=True).print(f"{title}: none", style="dim")
    for name, known in found:
        console.print(name, soft_wrap=True)
        print_words(console, f"  {known}")


def minutes(moment: datetime | None) -> str:
    """In UTC, in as few characters as a table has room for."""
    return "" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"


def print_words(console: Console, text: str, *, style: str | None = None) -> None:
    """Print a line that is broken between words on a terminal or in a picture; a program gets it whole."""
    is_for_people = console.is_terminal or console.record
    console.print(text, style=style, markup=False, soft_wrap=not is_for_people)


def working(what: str) -> Status:
    """Show on standard error that this is being done, for as long as the context lasts."""
    return Terminal(stderr=True).status(what)
