"""Receipts: what dashboards read."""

import csv
import io
from collections.abc import AsyncIterator, Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import AwareDatetime

from app.billing.receipts import Receipts
from app.billing.repository import ReceiptFilter
from app.http.dependencies import ReceiptReader, ServicesDep
from app.http.schemas import Page, ReceiptShape
from app.ids import AccountId
from app.paging import MAX_PAGE

router = APIRouter(prefix="/v1/receipts", tags=["receipts"])

CSV = "text/csv"
PLAIN = r"^[^\x00]+$"
"""PostgreSQL has no text with U+0000 in it."""
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def receipt_filter(
    run_id: Annotated[str | None, Query(alias="runId", pattern=PLAIN)] = None,
    graph_id: Annotated[str | None, Query(alias="graphId", pattern=PLAIN)] = None,
    model: Annotated[str | None, Query(pattern=PLAIN)] = None,
    created_from: Annotated[AwareDatetime | None, Query(alias="from")] = None,
    created_to: Annotated[AwareDatetime | None, Query(alias="to", description="Exclusive.")] = None,
) -> ReceiptFilter:
    """Collect the filters of a request."""
    return ReceiptFilter(run_id, graph_id, model, created_from, created_to)


@router.get(
    "",
    summary="List receipts",
    response_model=Page[ReceiptShape],
    responses={200: {"content": {CSV: {}}}},
)
async def list_receipts(
    request: Request,
    services: ServicesDep,
    caller: ReceiptReader,
    wanted: Annotated[ReceiptFilter, Depends(receipt_filter)],
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
    cursor: str | None = None,
) -> Any:
    """Receipts of the key's account, newest first. `Accept: text/csv` exports all that match."""
    if CSV in request.headers.get("accept", ""):
        rows = _csv(services.receipts, caller.account_id, wanted)
        headers = {"Content-Disposition": 'attachment; filename="receipts.csv"'}
        return StreamingResponse(rows, media_type=CSV, headers=headers)
    receipts, next_cursor = await services.receipts.search(
        caller.account_id, wanted, limit=limit, cursor=cursor
    )
    items = [ReceiptShape.of(receipt) for receipt in receipts]
    return Page[ReceiptShape](items=items, next_cursor=next_cursor)


async def _csv(
    receipts: Receipts,
    account_id: AccountId,
    wanted: ReceiptFilter,
) -> AsyncIterator[str]:
    yield csv_line(field.alias or name for name, field in ReceiptShape.model_fields.items())
    cursor: str | None = None
    while True:
        page, cursor = await receipts.search(account_id, wanted, limit=MAX_PAGE, cursor=cursor)
        rows = (ReceiptShape.of(receipt).model_dump(mode="json") for receipt in page)
        yield "".join(csv_line(row.values()) for row in rows)
        if cursor is None:
            return


def csv_line(values: Iterable[Any]) -> str:
    """One line of CSV; no value can pose as a spreadsheet's formula."""
    line = io.StringIO()
    csv.writer(line).writerow(_harmless(value) for value in values)
    return line.getvalue()


def _harmless(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    return value
