"""Spend limits of the provider's Admin API: the budgets of the key's account that they can express."""

from collections.abc import Callable, Sequence
from typing import Annotated, TypeAlias, TypeVar

from fastapi import APIRouter, Depends, Path, Query

from app.billing.budgets.records import AccountBudget, BudgetUse
from app.billing.budgets.service import BudgetNotFound
from app.bootstrap.services import Services
from app.errors import Invalid
from app.http.admission.checks import CheckedRoute, small_body
from app.http.anthropic.errors import PATH
from app.http.anthropic.limit_schemas import (
    DeletedSpendLimit,
    LimitPage,
    Period,
    ScopeType,
    SpendLimit,
    SpendLimitRequest,
    SpendSummary,
    is_spend_limit,
    period_of,
)
from app.http.anthropic.openapi import ERROR_RESPONSES
from app.http.dependencies import ActorDep, BudgetManager, ReceiptReader, ServicesDep
from app.ids import AccountId
from app.requests.attribution import EndUser

router = APIRouter(
    route_class=CheckedRoute,
    prefix=f"{PATH}/organizations/spend_limits",
    tags=["anthropic"],
    responses=ERROR_RESPONSES,
)

_MOST = 1000
_MOST_USERS = 100

_Found: TypeAlias = tuple[AccountBudget, BudgetUse]
_Item = TypeVar("_Item")
Limit: TypeAlias = Annotated[int, Query(ge=1, le=_MOST)]
PageToken: TypeAlias = Annotated[str | None, Query(description="The `next_page` of the page before.")]
LimitId: TypeAlias = Annotated[str, Path(alias="spendLimitId")]


async def _beta(beta: Annotated[bool | None, Query(description="Ignored.")] = None) -> None:
    """What the client adds to each path."""


router.dependencies.append(Depends(_beta))


@router.get("", summary="List spend limits")
async def list_spend_limits(
    services: ServicesDep,
    caller: ReceiptReader,
    limit: Limit = 20,
    page: PageToken = None,
    scope_type: Annotated[list[ScopeType] | None, Query(alias="scope_type[]")] = None,
) -> LimitPage[SpendLimit]:
    """The budgets of the account that a spend limit can express, by id."""
    found = [
        each
        for each in await _limits(services, caller.account_id)
        if scope_type is None or ("organization" if each[0].scope == "account" else "user") in scope_type
    ]
    return _page(found, limit, page, SpendLimit.of)


@router.get("/effective", summary="List what end users have spent of their limits")
async def list_effective_spend_limits(
    services: ServicesDep,
    caller: ReceiptReader,
    limit: Limit = 20,
    page: PageToken = None,
    user_ids: Annotated[list[EndUser] | None, Query(alias="user_ids[]", max_length=_MOST_USERS)] = None,
    period: Annotated[list[Period] | None, Query(alias="period[]")] = None,
) -> LimitPage[SpendSummary]:
    """A row for each limit of one end user; limits of the account and of every end user apply besides."""
    rows = [
        (budget, use)
        for budget, use in await _limits(services, caller.account_id)
        if budget.match is not None
        and (user_ids is None or budget.match in user_ids)
        and (period is None or period_of(budget) in period)
    ]
    return _page(rows, limit, page, SpendSummary.of)


@router.post("", dependencies=[small_body], summary="Set a spend limit")
async def set_spend_limit(
    body: SpendLimitRequest, services: ServicesDep, caller: BudgetManager, actor: ActorDep
) -> SpendLimit:
    """Set or replace the hard budget of this scope and period; what admin has set, only admin changes."""
    known = [budget for budget, _ in await _limits(services, caller.account_id)]
    budget = body.budget(caller.account_id, known, is_operators=caller.may("admin"))
    return SpendLimit.of(*await services.budgets.set_budget(caller.account_id, budget, by=actor))


@router.get("/{spendLimitId}", summary="Look up a spend limit")
async def get_spend_limit(limit_id: LimitId, services: ServicesDep, caller: ReceiptReader) -> SpendLimit:
    """A budget that a spend limit can express."""
    return SpendLimit.of(*await _find(services, caller.account_id, limit_id))


@router.delete("/{spendLimitId}", summary="Delete a spend limit")
async def delete_spend_limit(
    limit_id: LimitId, services: ServicesDep, caller: BudgetManager, actor: ActorDep
) -> DeletedSpendLimit:
    """Delete a budget that a spend limit can express; what admin has set, only admin deletes."""
    await _find(services, caller.account_id, limit_id)
    is_operator = caller.may("admin")
    await services.budgets.delete(caller.account_id, limit_id, is_operator=is_operator, by=actor)
    return DeletedSpendLimit(id=limit_id)


async def _limits(services: Services, account_id: AccountId) -> list[_Found]:
    return [each for each in await services.budgets.list_budgets(account_id) if is_spend_limit(each[0])]


async def _find(services: Services, account_id: AccountId, limit_id: str) -> _Found:
    for each in await _limits(services, account_id):
        if each[0].id == limit_id:
            return each
    raise BudgetNotFound


def _page(
    found: Sequence[_Found], limit: int, after: str | None, shown: Callable[[AccountBudget, BudgetUse], _Item]
) -> LimitPage[_Item]:
    ids = [budget.id for budget, _ in found]
    if after is not None and after not in ids:
        raise Invalid.field("page", "is not a page of this list")
    rest = found if after is None else found[ids.index(after) + 1 :]
    next_page = rest[limit - 1][0].id if len(rest) > limit else None
    return LimitPage(data=[shown(*each) for each in rest[:limit]], next_page=next_page)
