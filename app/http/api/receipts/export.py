"""export_receipts: all receipts that match, as a table of rows made from them."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol

from anyio import to_thread

from app.billing.receipts.records import Receipt, ReceiptFilter
from app.billing.reports.service import BillingReports
from app.http.streaming.line_export import LineExport
from app.http.streaming.sse import ReaderScope
from app.ids import AccountId
from app.platform.pagination import MAX_PAGE, PageRequest
from app.platform.read_side import ReadSide

RowsOf = Callable[[Receipt], Iterable[Sequence[Any]]]


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


async def export_receipts(
    reading: ReadSide,
    account_id: AccountId,
    filters: ReceiptFilter,
    *,
    name: str,
    table: TableWriter,
    rows_of: RowsOf,
    reader_scope: ReaderScope,
) -> LineExport:
    """Stream the rows of an account's receipts, newest first; nothing is held but a page of them."""

    async def page_after(cursor: str | None) -> tuple[tuple[list[Receipt], str | None], datetime | None]:
        page = PageRequest.of_uuids(MAX_PAGE, cursor)
        return await reading.read(lambda database: BillingReports(database).search(account_id, filters, page))

    # Read before the response begins, so that an error can still be a problem document.
    (page, cursor), as_of = await page_after(None)

    def added() -> str | bytes:
        return table.add(row for receipt in page for row in rows_of(receipt))

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
