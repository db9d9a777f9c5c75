"""Usage and balance of the key's account."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query

from app.billing.reports import DEFAULT_TOP, UsageQuery
from app.billing.usage_repository import GroupBy, UsageFilter
from app.http.admission.checks import AdmittedRoute
from app.http.api.usage.schemas import BalanceResponse, UsageReportResponse
from app.http.dependencies import ReceiptReader, ServicesDep
from app.http.parameters import Moment, StoredText

router = APIRouter(route_class=AdmittedRoute, prefix="/v1", tags=["billing"])

MOST_PARTS = 50


def usage_filter(
    since: Annotated[Moment | None, Query(alias="from")] = None,
    until: Annotated[Moment | None, Query(alias="to", description="Exclusive.")] = None,
    graph_id: Annotated[StoredText | None, Query(alias="graphId")] = None,
    model: StoredText | None = None,
    api_key_id: Annotated[UUID | None, Query(alias="apiKeyId")] = None,
) -> UsageFilter:
    """Collect the filters of a request."""
    return UsageFilter(since, until, model, graph_id, api_key_id)


@router.get("/usage", summary="Sum up usage")
async def usage(
    services: ServicesDep,
    caller: ReceiptReader,
    wanted: Annotated[UsageFilter, Depends(usage_filter)],
    group_by: Annotated[GroupBy | None, Query(alias="groupBy")] = None,
    split_by: Annotated[
        GroupBy | None, Query(alias="splitBy", description="What each group is split by in turn.")
    ] = None,
    top: Annotated[
        int,
        Query(ge=1, le=MOST_PARTS, description="The most charged parts of a split; the rest is one."),
    ] = DEFAULT_TOP,
    time_zone: Annotated[
        str, Query(alias="timeZone", max_length=100, description="Where a day begins; an IANA name.")
    ] = "UTC",
) -> UsageReportResponse:
    """Sums over receipts by group; without `groupBy` only the total."""
    query = UsageQuery(group_by, wanted, time_zone=time_zone, split_by=split_by, top=top)
    return UsageReportResponse.of(query, await services.billing.usage(caller.account_id, query))


@router.get("/balance", summary="Look up the balance")
async def balance(services: ServicesDep, caller: ReceiptReader) -> BalanceResponse:
    """Credits granted, spent and left."""
    return BalanceResponse.of(await services.ledger.credit(caller.account_id))
