"""Exports of whole lists: all their pages as a table, of which only one page is held."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeAlias, TypeVar

from anyio import to_thread

from app.http.response_model import ResponseModel
from app.http.streaming.csv_table import CsvTable
from app.http.streaming.line_export import LineExport
from app.http.streaming.sse import ReaderScope

_Record = TypeVar("_Record")

PageAfter: TypeAlias = Callable[
    [str | None], Awaitable[tuple[tuple[Sequence[_Record], str | None], datetime | None]]
]
"""Reads the page after a cursor: records, the next cursor, and until when the database has everything."""


class TableWriter(Protocol):
    """Writes rows in a file format, piece by piece."""

    media_type: str
    suffix: str

    def start(self) -> str | bytes:
        """What comes before the rows."""

    def add(self, rows: Iterable[Sequence[Any]]) -> str | bytes:
        """What can be sent once these rows are known."""

    def end(self) -> str | bytes:
        """What comes after the rows."""


async def export_pages(
    page_after: PageAfter[_Record],
    rows_of: Callable[[_Record], Iterable[Sequence[Any]]],
    *,
    name: str,
    table: TableWriter,
    reader_scope: ReaderScope,
) -> LineExport:
    """Stream the rows of all records, in the order of the pages."""
    # Read before the response begins, so that an error can still be a problem document.
    (page, cursor), as_of = await page_after(None)

    def added() -> str | bytes:
        return table.add(row for record in page for row in rows_of(record))

    async def pieces() -> AsyncIterator[str | bytes]:
        nonlocal page, cursor
        yield table.start()
        # In a thread: a page may be a thousand rows.
        yield await to_thread.run_sync(added)
        while cursor is not None:
            (page, cursor), _ = await page_after(cursor)
            yield await to_thread.run_sync(added)
        yield table.end()

    return LineExport(
        pieces(),
        media_type=table.media_type,
        filename=f"{name}.{table.suffix}",
        reader_scope=reader_scope,
        as_of=as_of,
    )


async def csv_of_pages(
    page_after: PageAfter[_Record],
    model: type[ResponseModel],
    shown: Callable[[_Record], ResponseModel],
    *,
    name: str,
    reader_scope: ReaderScope,
) -> LineExport:
    """All pages of a list as CSV, with the fields of its JSON as columns."""
    table = CsvTable(field.alias or name for name, field in model.model_fields.items())

    def rows_of(record: _Record) -> Iterable[Sequence[Any]]:
        return [tuple(shown(record).model_dump(mode="json", by_alias=True).values())]

    return await export_pages(page_after, rows_of, name=name, table=table, reader_scope=reader_scope)
