"""Exports of the caller's account for tools of finance."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response

from app.billing.exports.focus import COLUMNS, AccountNames, focus_rows
from app.billing.receipts.records import Receipt, ReceiptFilter
from app.billing.reports.service import BillingReports
from app.errors import Invalid
from app.http.admission.checks import CheckedRoute
from app.http.dependencies import OpenExportReader, ReceiptReader, ServicesDep
from app.http.openapi.headers import EXPORTED
from app.http.parameters import MomentParam
from app.http.streaming.csv_table import CSV, CsvTable
from app.http.streaming.line_export import LineExport
from app.http.streaming.parquet_table import PARQUET, ParquetTable
from app.http.streaming.table_export import export_pages
from app.platform.pagination import MAX_PAGE, PageRequest

router = APIRouter(route_class=CheckedRoute, prefix="/v1/exports", tags=["billing"])


@router.get(
    "/focus",
    summary="Export costs in FOCUS",
    response_class=Response,
    responses={200: {"description": "The table.", "content": {CSV: {}, PARQUET: {}}, **EXPORTED}},
)
async def export_focus(
    services: ServicesDep,
    caller: ReceiptReader,
    since: Annotated[MomentParam, Query(alias="from")],
    until: Annotated[MomentParam, Query(alias="to", description="Exclusive.")],
    format_: Annotated[Literal["csv", "parquet"], Query(alias="format")] = "csv",
    *,
    open_reader: OpenExportReader,
) -> LineExport:
    """Charges of the key's account in FOCUS 1.2, newest first: a row for each kind of token and tool.

    The costs of a receipt's rows add up to the receipt exactly.
    """
    if since >= until:
        raise Invalid.field("to", "must be later than from")
    found = await services.accounts.find_names({caller.account_id})
    names = AccountNames(found[caller.account_id], await services.accounts.find_key_names(caller.account_id))

    def rows_of(receipt: Receipt) -> Iterator[tuple[Any, ...]]:
        return (tuple(row.values()) for row in focus_rows(receipt, names))

    async def page_after(cursor: str | None) -> tuple[tuple[list[Receipt], str | None], datetime | None]:
        page, filters = PageRequest.of_uuids(MAX_PAGE, cursor), ReceiptFilter(used_from=since, used_to=until)
        return await services.reading.read(
            lambda database: BillingReports(database).search(caller.account_id, filters, page)
        )

    return await export_pages(
        page_after,
        rows_of,
        name="focus",
        table=CsvTable(COLUMNS) if format_ == "csv" else ParquetTable(COLUMNS),
        reader_scope=open_reader(caller, caller.account_id),
    )
