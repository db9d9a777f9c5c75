"""The fleet, for operators."""

from typing import Annotated

from fastapi import APIRouter, Query

from app.http.admission.checks import CheckedRoute
from app.http.api.fleet.schemas import FleetResponse, RunAttemptsResponse
from app.http.dependencies import Admin, RunIdParam, ServicesDep, run_key
from app.runs.fleet.service import LISTED_ACCOUNTS, MAX_LISTED_ACCOUNTS

router = APIRouter(route_class=CheckedRoute, prefix="/v1/fleet", tags=["health"])


@router.get("", summary="Show workers and queue")
async def fleet(
    services: ServicesDep,
    _caller: Admin,
    limit: Annotated[
        int, Query(ge=1, le=MAX_LISTED_ACCOUNTS, description="How many accounts are listed.")
    ] = LISTED_ACCOUNTS,
) -> FleetResponse:
    """Every process on the database, and the unfinished runs of all accounts, at one moment."""
    return FleetResponse.of(await services.fleet.snapshot(accounts=limit))


@router.get("/runs/{runId}", summary="Show where a run was executed")
async def run_attempts(run_id: RunIdParam, services: ServicesDep, caller: Admin) -> RunAttemptsResponse:
    """The attempts of a run of the key's account, and their processes."""
    found = await services.fleet.attempts(run_key(caller, run_id))
    return RunAttemptsResponse.model_validate({"run_id": run_id, "attempts": found})
