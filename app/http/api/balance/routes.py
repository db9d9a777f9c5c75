"""The balance of the caller's account, and when more credit is requested."""

from fastapi import APIRouter

from app.http.admission.checks import CheckedRoute, small_body
from app.http.api.balance.schemas import BalanceResponse, TopUpRequest
from app.http.dependencies import ActorDep, BudgetManager, OfAccount, ReceiptReader, ServicesDep

router = APIRouter(route_class=CheckedRoute, prefix="/v1/balance", tags=["billing"])


@router.get("", summary="Look up the balance")
async def balance(services: ServicesDep, _caller: ReceiptReader, account_id: OfAccount) -> BalanceResponse:
    """Credits granted, spent and left."""
    return BalanceResponse.of(await services.ledger.balance(account_id))


@router.put("/top-up", dependencies=[small_body], summary="Request credit automatically")
async def set_top_up(
    body: TopUpRequest,
    services: ServicesDep,
    _caller: BudgetManager,
    account_id: OfAccount,
    actor: ActorDep,
) -> BalanceResponse:
    """Send `credit.topup_requested` to webhooks when less than `belowUsd` is left of a prepaid account.

    That is now if it is so already. It is sent again once credit was added and spent, at most `perDay` times
    a day (UTC); if none was added, on another day.
    """
    return BalanceResponse.of(await services.ledger.set_top_up(account_id, body.top_up, by=actor))


@router.delete("/top-up", status_code=204, summary="Stop requesting credit")
async def delete_top_up(
    services: ServicesDep, _caller: BudgetManager, account_id: OfAccount, actor: ActorDep
) -> None:
    """Nothing happens if it is not set."""
    await services.ledger.set_top_up(account_id, None, by=actor)
