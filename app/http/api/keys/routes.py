"""API keys: create, list, rotate and revoke."""

from datetime import timedelta
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Query

from app.auth.accounts import KeyNotFound
from app.http.admission.checks import CheckedRoute, optional_body, small_body
from app.http.api.keys import schemas
from app.http.dependencies import ActorDep, KeyManager, ReceiptReader, ServicesDep
from app.http.parameters import UuidPageParams, uuid_in_path
from app.http.response_model import Page
from app.ids import ApiKeyId

router = APIRouter(route_class=CheckedRoute, prefix="/v1", tags=["accounts"])


KeyId: TypeAlias = Annotated[ApiKeyId, uuid_in_path("keyId", KeyNotFound)]


@router.get("/keys", summary="List the account's API keys")
async def list_keys(
    services: ServicesDep,
    caller: ReceiptReader,
    page: UuidPageParams,
) -> Page[schemas.ApiKeyResponse]:
    """Keys of the key's account, newest first; receipts refer to them in `apiKeyId`."""
    found = await services.accounts.list_account_keys(caller.account_id, page)
    return Page.of(found, schemas.ApiKeyResponse.model_validate)


@router.get("/accounts/{account}/keys", summary="List an account's API keys with their rights")
async def list_account_keys(
    account: str, services: ServicesDep, caller: KeyManager, page: UuidPageParams
) -> Page[schemas.ManagedKey]:
    """Keys of the caller's account, or with `admin` of any, newest first."""
    found = await services.accounts.find_visible(caller, account)
    return Page.of(await services.accounts.list_account_keys(found.id, page), schemas.ManagedKey.of)


@router.post(
    "/accounts/{account}/keys", status_code=201, dependencies=[small_body], summary="Create an API key"
)
async def create_key(
    account: str, body: schemas.KeyRequest, services: ServicesDep, caller: KeyManager, actor: ActorDep
) -> schemas.CreatedKey:
    """A key of the caller's account, or with `admin` of any; `key` is shown only here.

    It gets at most the rights of the caller's key: what is omitted is as with the caller.
    """
    record, secret = await services.accounts.give_key(caller, account, body.scopes, by=actor, **body.options)
    return schemas.CreatedKey.of(record, key=secret)


@router.delete("/keys/{keyId}", summary="Revoke an API key")
async def revoke_key(
    key_id: KeyId,
    services: ServicesDep,
    caller: KeyManager,
    actor: ActorDep,
    *,
    stop_runs: Annotated[
        bool, Query(alias="stopRuns", description="Also cancel its runs that are queued or running.")
    ] = False,
) -> schemas.RevokedKey:
    """Revoke a key of the caller's account, or with `admin` of any.

    Its open streams end within a second; its runs continue by default.
    """
    stopped = await services.key_revocation.revoke(key_id, stop_runs=stop_runs, caller=caller, by=actor)
    return schemas.RevokedKey(id=key_id, stopped_runs=stopped)


@router.post(
    "/keys/{keyId}/rotate", status_code=201, dependencies=[optional_body], summary="Rotate an API key"
)
async def rotate_key(
    key_id: KeyId,
    services: ServicesDep,
    caller: KeyManager,
    actor: ActorDep,
    body: schemas.Rotation | None = None,
) -> schemas.CreatedKey:
    """Create a key with the same rights; the old one ends after `overlapS`.

    Schedules and batches of the old key go on with the new one.
    """
    overlap = timedelta(seconds=(body or schemas.Rotation()).overlap_s)
    record, secret = await services.key_rotation.rotate(key_id, overlap, caller=caller, by=actor)
    return schemas.CreatedKey.of(record, key=secret)
