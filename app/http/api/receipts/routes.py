"""Receipts: search and CSV export."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query

from app.billing.receipts.records import Receipt, ReceiptBasis, ReceiptFilter
from app.billing.reports.service import BillingReports
from app.http.admission.checks import CheckedRoute
from app.http.api.receipts.schemas import ReceiptResponse
from app.http.dependencies import OfAccount, OpenExportReader, ReceiptReader, ServicesDep
from app.http.openapi.headers import EXPORTED
from app.http.parameters import LabelParams, MomentParam, StorableText, UuidPageParams
from app.http.response_model import Page
from app.http.streaming.csv_table import CSV, WantsCsv
from app.http.streaming.table_export import csv_of_pages
from app.platform.pagination import MAX_PAGE, PageRequest
from app.usage.records import MissCause, Origin

router = APIRouter(route_class=CheckedRoute, prefix="/v1/receipts", tags=["receipts"])


async def receipt_filter(
    run_id: Annotated[StorableText | None, Query(alias="runId")] = None,
    graph_id: Annotated[StorableText | None, Query(alias="graphId")] = None,
    model: StorableText | None = None,
    used_from: Annotated[MomentParam | None, Query(alias="from")] = None,
    used_to: Annotated[MomentParam | None, Query(alias="to", description="Exclusive.")] = None,
    api_key_id: Annotated[UUID | None, Query(alias="apiKeyId")] = None,
    basis: ReceiptBasis | None = None,
    origin: Origin | None = None,
    *,
    cache_miss: Annotated[
        MissCause | None, Query(alias="cacheMiss", description="The cause of its miss of the prompt cache.")
    ] = None,
    labels: LabelParams,
) -> ReceiptFilter:
    return ReceiptFilter(
        run_id, graph_id, model, used_from, used_to, api_key_id, basis, origin, cache_miss, labels
    )


@router.get(
    "",
    summary="List receipts",
    response_model=Page[ReceiptResponse],
    responses={200: {"content": {CSV: {}}, **EXPORTED}},
)
async def list_receipts(
    services: ServicesDep,
    caller: ReceiptReader,
    account_id: OfAccount,
    filters: Annotated[ReceiptFilter, Depends(receipt_filter)],
    page: UuidPageParams,
    wants_csv: WantsCsv,
    *,
    open_reader: OpenExportReader,
) -> Any:
    """Receipts of an account, newest first; as CSV (`format`, or `Accept`) all that match."""

    async def page_after(page: PageRequest) -> tuple[tuple[list[Receipt], str | None], datetime | None]:
        return await services.reading.read(
            lambda database: BillingReports(database).search(account_id, filters, page)
        )

    if wants_csv:
        return await csv_of_pages(
            lambda cursor: page_after(PageRequest.of_uuids(MAX_PAGE, cursor)),
            ReceiptResponse,
            ReceiptResponse.model_validate,
            name="receipts",
            reader_scope=open_reader(caller, caller.account_id),
        )
    found, as_of = await page_after(page)
    return Page.of(found, ReceiptResponse.model_validate, as_of=as_of)
