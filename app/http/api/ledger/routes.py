"""The ledger: list and CSV export."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query

from app.billing.ledger.records import ListedEntry
from app.billing.ledger.service import LedgerEntries
from app.http.admission.checks import CheckedRoute
from app.http.api.ledger.schemas import LedgerEntryResponse
from app.http.dependencies import OfAccount, OpenExportReader, ReceiptReader, ServicesDep
from app.http.openapi.headers import EXPORTED
from app.http.response_model import Page
from app.http.streaming.csv_table import CSV, WantsCsv
from app.http.streaming.table_export import csv_of_pages
from app.platform.pagination import MAX_PAGE

router = APIRouter(route_class=CheckedRoute, prefix="/v1/ledger", tags=["billing"])


@router.get(
    "",
    summary="List changes of an account's credit",
    response_model=Page[LedgerEntryResponse],
    responses={200: {"content": {CSV: {}}, **EXPORTED}},
)
async def list_ledger_entries(
    services: ServicesDep,
    caller: ReceiptReader,
    account_id: OfAccount,
    wants_csv: WantsCsv,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
    cursor: str | None = None,
    *,
    open_reader: OpenExportReader,
) -> Any:
    """Entries newest first, in the order in which they were committed; as CSV all of them."""

    async def page_after(
        cursor: str | None, limit: int = MAX_PAGE
    ) -> tuple[tuple[Sequence[ListedEntry], str | None], datetime | None]:
        return await services.reading.read(
            lambda database: LedgerEntries(database).list_entries(account_id, limit=limit, cursor=cursor)
        )

    if wants_csv:
        reader_scope = open_reader(caller, caller.account_id)
        return await csv_of_pages(
            page_after,
            LedgerEntryResponse,
            LedgerEntryResponse.of,
            name="ledger",
            reader_scope=reader_scope,
        )
    found, as_of = await page_after(cursor, limit)
    return Page.of(found, LedgerEntryResponse.of, as_of=as_of)
