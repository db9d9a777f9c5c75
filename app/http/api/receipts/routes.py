"""Receipts: search and CSV export."""

import json
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query

from app.billing.receipts.records import Receipt, ReceiptBasis, ReceiptFilter
from app.billing.reports.service import BillingReports
from app.http.admission.checks import CheckedRoute
from app.http.api.receipts.csv_export import CSV, csv_line, prefers_csv
from app.http.api.receipts.schemas import ReceiptResponse
from app.http.dependencies import OpenExportReader, ReceiptReader, ServicesDep
from app.http.openapi.headers import EXPORTED
from app.http.parameters import LabelParams, MomentParam, StorableText, UuidPageParams
from app.http.response_model import Page
from app.http.streaming.line_export import LineExport
from app.http.streaming.sse import ReaderScope
from app.platform.pagination import MAX_PAGE, PageRequest
from app.platform.read_side import ReadSide
from app.requests.principal import Principal
from app.usage.records import Origin

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
    labels: LabelParams,
) -> ReceiptFilter:
    """Collect the filters of a request."""
    return ReceiptFilter(run_id, graph_id, model, used_from, used_to, api_key_id, basis, origin, labels)


@router.get(
    "",
    summary="List receipts",
    response_model=Page[ReceiptResponse],
    responses={200: {"content": {CSV: {}}, **EXPORTED}},
)
async def list_receipts(
    services: ServicesDep,
    caller: ReceiptReader,
    filters: Annotated[ReceiptFilter, Depends(receipt_filter)],
    page: UuidPageParams,
    format_: Annotated[
        Literal["json", "csv"] | None, Query(alias="format", description="Takes precedence over `Accept`.")
    ] = None,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
    *,
    open_reader: OpenExportReader,
) -> Any:
    """Receipts of the key's account, newest first; as CSV (`format`, or `Accept`) all that match."""
    if format_ == "csv" or (format_ is None and prefers_csv(accept)):
        reader_scope = open_reader(caller, caller.account_id)
        return await _export_csv(services.reading, caller, filters, reader_scope=reader_scope)
    found, as_of = await services.reading.read(
        lambda database: BillingReports(database).search(caller.account_id, filters, page)
    )
    return Page.of(found, ReceiptResponse.model_validate, as_of=as_of)


async def _export_csv(
    reading: ReadSide,
    caller: Principal,
    filters: ReceiptFilter,
    *,
    reader_scope: ReaderScope,
) -> LineExport:
    async def page_after(cursor: str | None) -> tuple[tuple[list[Receipt], str | None], datetime | None]:
        page = PageRequest.of_uuids(MAX_PAGE, cursor)
        return await reading.read(
            lambda database: BillingReports(database).search(caller.account_id, filters, page)
        )

    # Read before the response begins, so that an error can still be a problem document.
    (page, cursor), as_of = await page_after(None)

    async def lines() -> AsyncIterator[str]:
        nonlocal page, cursor
        yield csv_line(field.alias or name for name, field in ReceiptResponse.model_fields.items())
        yield _rows(page)
        while cursor is not None:
            (page, cursor), _ = await page_after(cursor)
            yield _rows(page)

    return LineExport(
        lines(), media_type=CSV, filename="receipts.csv", reader_scope=reader_scope, as_of=as_of
    )


def _rows(receipts: list[Receipt]) -> str:
    rows = (
        ReceiptResponse.model_validate(receipt).model_dump(mode="json", by_alias=True) for receipt in receipts
    )
    return "".join(csv_line(map(_cell, row.values())) for row in rows)


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value
