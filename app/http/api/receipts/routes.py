"""Receipts: what dashboards read."""

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query

from app.billing.reports import BillingReports
from app.billing.repository import Receipt, ReceiptBasis
from app.billing.search_repository import ReceiptFilter
from app.http.admission.checks import AdmittedRoute
from app.http.api.receipts.csv_export import CSV, CsvExport, csv_line, wants_csv
from app.http.dependencies import Exporting, ReceiptReader, ServicesDep
from app.http.parameters import Moment, StoredText
from app.http.schemas import Page, ReceiptResponse
from app.pagination import MAX_PAGE
from app.principal import Principal
from app.usage import Origin

router = APIRouter(route_class=AdmittedRoute, prefix="/v1/receipts", tags=["receipts"])


def receipt_filter(
    run_id: Annotated[StoredText | None, Query(alias="runId")] = None,
    graph_id: Annotated[StoredText | None, Query(alias="graphId")] = None,
    model: StoredText | None = None,
    created_from: Annotated[Moment | None, Query(alias="from")] = None,
    created_to: Annotated[Moment | None, Query(alias="to", description="Exclusive.")] = None,
    api_key_id: Annotated[UUID | None, Query(alias="apiKeyId")] = None,
    basis: ReceiptBasis | None = None,
    origin: Origin | None = None,
) -> ReceiptFilter:
    """Collect the filters of a request."""
    return ReceiptFilter(run_id, graph_id, model, created_from, created_to, api_key_id, basis, origin)


@router.get(
    "",
    summary="List receipts",
    response_model=Page[ReceiptResponse],
    responses={200: {"content": {CSV: {}}}},
)
async def list_receipts(
    services: ServicesDep,
    caller: ReceiptReader,
    wanted: Annotated[ReceiptFilter, Depends(receipt_filter)],
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
    cursor: str | None = None,
    format_: Annotated[
        Literal["json", "csv"] | None, Query(alias="format", description="Wins over `Accept`.")
    ] = None,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
    *,
    exporting: Exporting,
) -> Any:
    """Receipts of the key's account, newest first; as CSV (`format`, or `Accept`) all that match."""
    if format_ == "csv" or (format_ is None and wants_csv(accept)):
        within = exporting(caller, caller.account_id)
        return await _exported(services.billing, caller, wanted, within=within)
    receipts, next_cursor = await services.billing.search(
        caller.account_id, wanted, limit=limit, cursor=cursor
    )
    items = [ReceiptResponse.of(receipt) for receipt in receipts]
    return Page[ReceiptResponse](items=items, next_cursor=next_cursor)


async def _exported(
    receipts: BillingReports,
    caller: Principal,
    wanted: ReceiptFilter,
    *,
    within: AbstractContextManager[None],
) -> CsvExport:
    async def page_after(cursor: str | None) -> tuple[list[Receipt], str | None]:
        return await receipts.search(caller.account_id, wanted, limit=MAX_PAGE, cursor=cursor)

    # Read before the response begins, so that an error can still be a problem document.
    page, cursor = await page_after(None)

    async def lines() -> AsyncIterator[str]:
        nonlocal page, cursor
        yield csv_line(field.alias or name for name, field in ReceiptResponse.model_fields.items())
        yield _rows(page)
        while cursor is not None:
            page, cursor = await page_after(cursor)
            yield _rows(page)

    return CsvExport(lines(), filename="receipts.csv", within=within)


def _rows(receipts: list[Receipt]) -> str:
    shapes = (ReceiptResponse.of(receipt).model_dump(mode="json") for receipt in receipts)
    return "".join(csv_line(shape.values()) for shape in shapes)
