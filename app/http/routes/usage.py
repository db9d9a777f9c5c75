"""Usage and balance of the key's account."""

from typing import Annotated

from fastapi import APIRouter, Query

from app.billing.reports import UsageQuery
from app.billing.usage_repository import GroupBy
from app.http.billing_schemas import BalanceShape, UsageReportShape
from app.http.dependencies import ReceiptReader, ServicesDep
from app.http.parameters import Moment

router = APIRouter(prefix="/v1", tags=["billing"])


@router.get("/usage", summary="Sum up usage")
async def usage(
    services: ServicesDep,
    caller: ReceiptReader,
    group_by: Annotated[GroupBy | None, Query(alias="groupBy")] = None,
    since: Annotated[Moment | None, Query(alias="from")] = None,
    until: Annotated[Moment | None, Query(alias="to", description="Exclusive.")] = None,
    time_zone: Annotated[
        str, Query(alias="timeZone", max_length=100, description="Where a day begins; an IANA name.")
    ] = "UTC",
) -> UsageReportShape:
    """Sums over receipts by group; without `groupBy` only the total."""
    query = UsageQuery(group_by=group_by, since=since, until=until, time_zone=time_zone)
    found = await services.billing.usage(caller.account_id, query)
    return UsageReportShape.of(group_by, time_zone, found)


@router.get("/balance", summary="Look up the balance")
async def balance(services: ServicesDep, caller: ReceiptReader) -> BalanceShape:
    """Credits granted, spent and left."""
    return BalanceShape.of(await services.ledger.credit(caller.account_id))
