"""Accounts and their credit, for operators with the scope `admin`."""

from fastapi import APIRouter

from app.auth.account_retention import AccountRetention
from app.http.admission.checks import CheckedRoute, small_body
from app.http.api.accounts import schemas
from app.http.dependencies import ActorDep, Admin, IdempotencyKey, ServicesDep
from app.http.parameters import UuidPageParams
from app.http.response_model import Page

router = APIRouter(route_class=CheckedRoute, prefix="/v1/accounts", tags=["accounts"])


@router.get("", summary="List accounts")
async def list_accounts(
    services: ServicesDep,
    _caller: Admin,
    page: UuidPageParams,
) -> Page[schemas.AccountResponse]:
    """All accounts, newest first."""
    return Page.of(await services.accounts.list_accounts(page), schemas.AccountResponse.model_validate)


@router.post("", status_code=201, dependencies=[small_body], summary="Create an account")
async def create_account(
    body: schemas.NewAccount, services: ServicesDep, _caller: Admin, actor: ActorDep
) -> schemas.AccountResponse:
    """An account without keys."""
    return schemas.AccountResponse.model_validate(await services.accounts.create_account(body.name, by=actor))


@router.get("/{account}", summary="Look up an account's credit")
async def get_account(account: str, services: ServicesDep, _caller: Admin) -> schemas.AccountBalance:
    """An account, by its name."""
    found = await services.accounts.find_by_name(account)
    return schemas.AccountBalance.of_account(found, await services.ledger.balance(found.id))


@router.patch("/{account}", dependencies=[small_body], summary="Change an account")
async def change_account(
    account: str, body: schemas.AccountChange, services: ServicesDep, _caller: Admin, actor: ActorDep
) -> schemas.ChangedAccount:
    """Rename or suspend an account, or change how it pays and for how long its contents are kept.

    Keys of a suspended account are refused with `account_suspended`, and its open streams end within a
    second; its runs continue, unless `stopRuns` is set.
    """
    found = await services.accounts.find_by_name(account)
    if body.retention is not None:
        retention = AccountRetention(services.database, services.contents.by_default)
        await retention.change(found.id, body.retention.changed, by=actor)
    changed = await services.accounts.change_account(
        found.id, name=body.name, suspended=body.suspended, by=actor
    )
    if body.mode is not None:
        await services.ledger.change_mode(found.id, body.mode, by=actor)
    stopped = await services.key_revocation.stop_runs(account_id=found.id) if body.stop_runs else 0
    credit = await services.ledger.balance(found.id)
    return schemas.ChangedAccount.of_account(changed, credit, stopped_runs=stopped)


@router.post("/{account}/grants", status_code=201, dependencies=[small_body], summary="Grant credit")
async def grant(
    account: str,
    body: schemas.Grant,
    services: ServicesDep,
    _caller: Admin,
    key: IdempotencyKey,
    actor: ActorDep,
) -> schemas.AccountBalance:
    """Add credit; repeating an `Idempotency-Key` adds it once.

    Grants are spent in the order of their `priority` (the lowest first), of `expiresAt`, and of their age.
    """
    found = await services.accounts.find_by_name(account)
    credit = await services.ledger.grant(
        found.id, body.amount, note=body.note, reference=key, terms=body.terms, by=actor
    )
    return schemas.AccountBalance.of_account(found, credit)


@router.post("/{account}/adjustments", status_code=201, dependencies=[small_body], summary="Adjust credit")
async def adjust(
    account: str,
    body: schemas.Adjustment,
    services: ServicesDep,
    _caller: Admin,
    key: IdempotencyKey,
    actor: ActorDep,
) -> schemas.AccountBalance:
    """Correct an account's credit; repeating an `Idempotency-Key` does it once."""
    found = await services.accounts.find_by_name(account)
    credit = await services.ledger.adjust(found.id, body.amount, note=body.note, reference=key, by=actor)
    return schemas.AccountBalance.of_account(found, credit)
