"""Statements: list, and one as JSON or PDF."""

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Query, Response

from app.billing.statements.pdf import statement_pdf
from app.billing.statements.service import Statements
from app.http.admission.checks import CheckedRoute
from app.http.api.statements.schemas import StatementResponse, StatementSummary
from app.http.dependencies import OfAccount, ReceiptReader, ServicesDep
from app.http.response_model import Page
from app.http.streaming.csv_table import prefers
from app.platform.pagination import MAX_PAGE

router = APIRouter(route_class=CheckedRoute, prefix="/v1/statements", tags=["billing"])

PDF = "application/pdf"
_MONTH = r"^[0-9]{4}-(0[1-9]|1[0-2])$"


@router.get("", summary="List statements")
async def list_statements(
    services: ServicesDep,
    _caller: ReceiptReader,
    account_id: OfAccount,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
    cursor: Annotated[str | None, Query(pattern=_MONTH)] = None,
) -> Page[StatementSummary]:
    """Statements of finished months, newest first; each is made an hour after its month has ended (UTC)."""
    statements = Statements(services.database)
    found = await statements.list_statements(account_id, before=cursor, limit=limit)
    return Page.of(found, StatementSummary.of)


@router.get(
    "/{month}",
    summary="Look up a statement",
    response_model=StatementResponse,
    responses={200: {"content": {PDF: {}}}},
)
async def get_statement(
    month: Annotated[str, Path(pattern=_MONTH, description="`YYYY-MM`, UTC.")],
    services: ServicesDep,
    _caller: ReceiptReader,
    account_id: OfAccount,
    format_: Annotated[
        Literal["json", "pdf"] | None, Query(alias="format", description="Takes precedence over `Accept`.")
    ] = None,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
) -> Any:
    """What changed the credit in a month; never changed, and signed by the key of the chains."""
    stored = await Statements(services.database).get(account_id, month)
    if format_ == "pdf" or (format_ is None and prefers(PDF, accept)):
        # In a thread: an account may have thousands of keys.
        content = await asyncio.to_thread(statement_pdf, stored)
        named = {"Content-Disposition": f'attachment; filename="statement-{month}.pdf"', "Vary": "Accept"}
        return Response(content, media_type=PDF, headers=named)
    return StatementResponse.of(stored)
