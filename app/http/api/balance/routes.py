"""The balance of the caller's account."""

from fastapi import APIRouter

from app.http.admission.checks import CheckedRoute
from app.http.api.balance.schemas import BalanceResponse
from app.http.dependencies import ReceiptReader, ServicesDep

router = APIRouter(route_class=CheckedRoute, prefix="/v1/balance", tags=["billing"])


@router.get("", summary="Look up the balance")
async def balance(services: ServicesDep, caller: ReceiptReader) -> BalanceResponse:
    """Credits granted, spent and left."""
    return BalanceResponse.of(await services.ledger.balance(caller.account_id))
