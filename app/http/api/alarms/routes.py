"""Alarms: runs whose meters disagreed, and receipts without a price."""

from typing import Annotated

from fastapi import APIRouter, Query

from app.billing.reports.service import check_window
from app.http.admission.checks import CheckedRoute
from app.http.api.alarms.schemas import AlarmsResponse
from app.http.dependencies import OfAccount, ReceiptReader, ServicesDep
from app.http.parameters import MomentParam

router = APIRouter(route_class=CheckedRoute, prefix="/v1/alarms", tags=["billing"])

MAX_ITEMS = 20


@router.get("", summary="List alarms")
async def alarms(
    services: ServicesDep,
    _caller: ReceiptReader,
    account_id: OfAccount,
    since: Annotated[MomentParam | None, Query(alias="from")] = None,
    until: Annotated[MomentParam | None, Query(alias="to", description="Exclusive.")] = None,
) -> AlarmsResponse:
    """Runs whose two meters disagreed, and receipts without a price: counts of all, details of the newest."""
    check_window(since, until)
    return AlarmsResponse.of(
        await services.runs.drifted(account_id, since=since, until=until, limit=MAX_ITEMS),
        await services.billing.unpriced(account_id, since=since, until=until, limit=MAX_ITEMS),
    )
