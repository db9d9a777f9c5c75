"""Usage reports of the caller's account."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query

from app.billing.reports.records import GroupBy, UsageFilter
from app.billing.reports.service import DEFAULT_TOP, BillingReports, UsageQuery
from app.http.admission.checks import CheckedRoute
from app.http.api.usage.schemas import CacheMissesResponse, UsageReportResponse
from app.http.dependencies import NamedAccount, OfAccount, ReceiptReader, ServicesDep
from app.http.parameters import LabelParams, MomentParam, StorableText
from app.http.response_model import Page

router = APIRouter(route_class=CheckedRoute, prefix="/v1/usage", tags=["billing"])

MAX_SPLIT_PARTS = 50
MAX_CAUSES = 50


async def usage_filter(
    since: Annotated[MomentParam | None, Query(alias="from")] = None,
    until: Annotated[MomentParam | None, Query(alias="to", description="Exclusive.")] = None,
    graph_id: Annotated[StorableText | None, Query(alias="graphId")] = None,
    model: StorableText | None = None,
    api_key_id: Annotated[UUID | None, Query(alias="apiKeyId")] = None,
    *,
    labels: LabelParams,
) -> UsageFilter:
    return UsageFilter(since, until, model, graph_id, api_key_id, labels)


@router.get("", summary="Sum up usage")
async def usage(
    services: ServicesDep,
    caller: ReceiptReader,
    account_id: NamedAccount,
    filters: Annotated[UsageFilter, Depends(usage_filter)],
    group_by: Annotated[GroupBy | None, Query(alias="groupBy")] = None,
    split_by: Annotated[
        GroupBy | None, Query(alias="splitBy", description="Splits each group further.")
    ] = None,
    top: Annotated[
        int,
        Query(
            ge=1,
            le=MAX_SPLIT_PARTS,
            description="Number of the most charged parts of a split, end users or values of a tag; the "
            "others are summed up as one.",
        ),
    ] = DEFAULT_TOP,
    time_zone: Annotated[
        str, Query(alias="timeZone", max_length=100, description="IANA time zone in which days begin.")
    ] = "UTC",
) -> UsageReportResponse:
    """Sums over receipts by group; without `groupBy` only the total.

    By `endUser` and `tag:NAME` the most charged values are listed; `null` is what else was charged, of other
    values and without one. By `account`, which needs the scope `admin`, the sums are of all accounts unless
    one is named.
    """
    if "account" in (group_by, split_by):
        caller.require("admin")
    else:
        account_id = account_id or caller.account_id
    query = UsageQuery(group_by, filters, time_zone=time_zone, split_by=split_by, top=top)
    found, as_of = await services.reading.read(
        lambda database: BillingReports(database).usage(account_id, query)
    )
    return UsageReportResponse.of(query, found, as_of)


@router.get("/cache-misses", summary="List the causes of misses of the prompt cache")
async def cache_misses(
    services: ServicesDep,
    _caller: ReceiptReader,
    account_id: OfAccount,
    filters: Annotated[UsageFilter, Depends(usage_filter)],
    top: Annotated[int, Query(ge=1, le=MAX_CAUSES, description="Number of the most expensive.")] = MAX_CAUSES,
) -> Page[CacheMissesResponse]:
    """What was not read from the prompt cache, by graph, model and cause, and what it cost.

    The receipts of one are those with its `graphId`, `model` and `cacheMiss`.
    """
    found, as_of = await services.reading.read(
        lambda database: BillingReports(database).cache_misses(account_id, filters, top=top)
    )
    return Page.of((found, None), CacheMissesResponse.model_validate, as_of=as_of)
