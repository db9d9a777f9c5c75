"""What somebody should look at: disagreeing meters and messages without a price."""

from typing import Annotated

from fastapi import APIRouter, Query

from app.billing.reports import check_window
from app.http.admission.checks import AdmittedRoute
from app.http.api.alarms.schemas import AlarmsResponse
from app.http.dependencies import ReceiptReader, ServicesDep
from app.http.parameters import Moment

router = APIRouter(route_class=AdmittedRoute, prefix="/v1/alarms", tags=["billing"])

SHOWN = 20


@router.get("", summary="Look for what needs attention")
async def alarms(
    services: ServicesDep,
    caller: ReceiptReader,
    since: Annotated[Moment | None, Query(alias="from")] = None,
    until: Annotated[Moment | None, Query(alias="to", description="Exclusive.")] = None,
) -> AlarmsResponse:
    """Runs whose two meters disagreed and receipts that wait for a price; all counted, the newest shown."""
    check_window(since, until)
    account = caller.account_id
    return AlarmsResponse.of(
        await services.runs.drifted(account, since=since, until=until, limit=SHOWN),
        await services.billing.unpriced(account, since=since, until=until, limit=SHOWN),
    )
