"""Accounts and their credit, for operators with the scope `admin`."""

from fastapi import APIRouter

from app.http.admission.checks import CheckedRoute, small_body
from app.http.api.accounts.schemas import AccountBalance, AccountResponse, Adjustment, Grant, TermsChange
from app.http.dependencies import Admin, IdempotencyKey, ServicesDep
from app.http.parameters import UuidPageParams
from app.http.response_model import Page

router = APIRouter(route_class=CheckedRoute, prefix="/v1/accounts", tags=["accounts"])


@router.get("", summary="List accounts")
async def list_accounts(
    services: ServicesDep,
    _caller: Admin,
    page: UuidPageParams,
) -> Page[AccountResponse]:
    """All accounts, newest first."""
    return Page.of(await services.accounts.list_accounts(page), AccountResponse.model_validate)


@router.get("/{account}", summary="Look up an account's credit")
async def get_account(account: str, services: ServicesDep, _caller: Admin) -> AccountBalance:
    """An account, by its name."""
    found = await services.accounts.find_by_name(account)
    return AccountBalance.of_account(found, await services.ledger.balance(found.id))


@router.patch("/{account}", dependencies=[small_body], summary="Change how an account pays")
async def change_terms(
    account: str, body: TermsChange, services: ServicesDep, _caller: Admin
) -> AccountBalance:
    """Set mode and monthly budget; a budget of null removes the budget."""
    found = await services.accounts.find_by_name(account)
    credit = await services.ledger.change_terms(found.id, body.applied_to)
    return AccountBalance.of_account(found, credit)


@router.post("/{account}/grants", status_code=201, dependencies=[small_body], summary="Grant credit")
async def grant(
    account: str, body: Grant, services: ServicesDep, _caller: Admin, key: IdempotencyKey
) -> AccountBalance:
    """Add credit; repeating an `Idempotency-Key` adds it once."""
    found = await services.accounts.find_by_name(account)
    credit = await services.ledger.grant(found.id, body.amount, note=body.note, reference=key)
    return AccountBalance.of_account(found, credit)


@router.post("/{account}/adjustments", status_code=201, dependencies=[small_body], summary="Adjust credit")
async def adjust(
    account: str, body: Adjustment, services: ServicesDep, _caller: Admin, key: IdempotencyKey
) -> AccountBalance:
    """Correct an account's credit; repeating an `Idempotency-Key` does it once."""
    found = await services.accounts.find_by_name(account)
    credit = await services.ledger.adjust(found.id, body.amount, note=body.note, reference=key)
    return AccountBalance.of_account(found, credit)
