"""Budgets of the key's account, and with `admin` of any."""

from typing import Annotated, TypeAlias

from fastapi import APIRouter, Path

from app.http.admission.checks import CheckedRoute, small_body
from app.http.api.budgets.schemas import BudgetRequest, BudgetResponse
from app.http.dependencies import ActorDep, BudgetManager, OfAccount, ReceiptReader, ServicesDep
from app.http.response_model import Page

router = APIRouter(route_class=CheckedRoute, prefix="/v1/budgets", tags=["billing"])

BudgetId: TypeAlias = Annotated[str, Path(alias="budgetId", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


@router.get("", summary="List budgets")
async def list_budgets(
    services: ServicesDep, _caller: ReceiptReader, account_id: OfAccount
) -> Page[BudgetResponse]:
    """All budgets of the account by id, and what is spent of each."""
    found = await services.budgets.list_budgets(account_id)
    return Page[BudgetResponse](items=[BudgetResponse.of(each) for each in found])


@router.get("/{budgetId}", summary="Look up a budget")
async def get_budget(
    budget_id: BudgetId, services: ServicesDep, _caller: ReceiptReader, account_id: OfAccount
) -> BudgetResponse:
    """A budget, and what is spent of it."""
    return BudgetResponse.of(await services.budgets.get(account_id, budget_id))


@router.put("/{budgetId}", dependencies=[small_body], summary="Set a budget")
async def set_budget(
    budget_id: BudgetId,
    body: BudgetRequest,
    services: ServicesDep,
    caller: BudgetManager,
    account_id: OfAccount,
    actor: ActorDep,
) -> BudgetResponse:
    """Create or replace a budget; what was spent in its current window counts.

    Without `match` each value of the scope has this limit by itself. What `admin` has set, only `admin`
    changes.
    """
    budget = body.named(budget_id, is_operators=caller.may("admin"))
    return BudgetResponse.of(await services.budgets.set_budget(account_id, budget, by=actor))


@router.delete("/{budgetId}", status_code=204, summary="Delete a budget")
async def delete_budget(
    budget_id: BudgetId,
    services: ServicesDep,
    caller: BudgetManager,
    account_id: OfAccount,
    actor: ActorDep,
) -> None:
    """Nothing is limited by it any more; what `admin` has set, only `admin` deletes."""
    is_operator = caller.may("admin")
    await services.budgets.delete(account_id, budget_id, is_operator=is_operator, by=actor)
