"""Reconciliation: how receipts compare with the provider's own reports."""

from typing import Annotated

from fastapi import APIRouter, Query

from app.billing.reconciliation.statements.service import ReconciliationStatements
from app.http.admission.checks import CheckedRoute
from app.http.api.reconciliation.schemas import (
    DifferenceResponse,
    ReconciliationResponse,
    RunReconciliationResponse,
)
from app.http.dependencies import Admin, ReceiptReader, RunIdParam, ServicesDep, run_key
from app.http.parameters import MomentParam, UuidPageParams
from app.http.response_model import Page

router = APIRouter(route_class=CheckedRoute, prefix="/v1/reconciliation", tags=["receipts"])

Since = Annotated[MomentParam | None, Query(alias="from")]
Until = Annotated[MomentParam | None, Query(alias="to", description="Exclusive.")]


@router.get("", summary="Show how receipts compare with the provider's reports")
async def reconciliation(
    services: ServicesDep, caller: ReceiptReader, since: Since = None, until: Until = None
) -> ReconciliationResponse:
    """What the provider's reports confirm of the account's cost; with `admin`, the whole comparison."""
    found, as_of = await services.reading.read(
        lambda database: ReconciliationStatements(database).of(
            caller.account_id, since=since, until=until, as_operator=caller.may("admin")
        )
    )
    return ReconciliationResponse.of(found, as_of)


@router.get("/runs/{runId}", summary="Show how a run's receipts compare with the provider's reports")
async def reconciliation_of_run(
    run_id: RunIdParam, services: ServicesDep, caller: ReceiptReader
) -> RunReconciliationResponse:
    """What the provider's reports confirm of a run's cost.

    Reports have sums of minutes: a difference is one of all that the account used then.
    """
    run = await services.runs.get(run_key(caller, run_id))
    found, as_of = await services.reading.read(
        lambda database: ReconciliationStatements(database).of_run(run.key)
    )
    return RunReconciliationResponse.of(found, as_of)


@router.get("/differences", summary="List differences between reports and receipts")
async def reconciliation_differences(
    services: ServicesDep,
    _caller: Admin,
    page: UuidPageParams,
    since: Since = None,
    until: Until = None,
    *,
    explained: Annotated[bool | None, Query(description="Only those that are explained, or are not.")] = None,
) -> Page[DifferenceResponse]:
    """Differences of all accounts, newest first; those that a later comparison superseded are left out."""
    found, as_of = await services.reading.read(
        lambda database: ReconciliationStatements(database).differences(
            page, since=since, until=until, explained=explained
        )
    )
    return Page.of(found, DifferenceResponse.of, as_of=as_of)
