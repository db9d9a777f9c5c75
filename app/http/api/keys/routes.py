"""API keys: list and revoke."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query

from app.auth.accounts import KeyNotFound
from app.http.admission.checks import CheckedRoute
from app.http.api.keys.schemas import ApiKeyResponse, RevokedKey
from app.http.dependencies import Admin, ReceiptReader, ServicesDep
from app.http.parameters import UuidPageParams
from app.http.response_model import Page
from app.ids import ApiKeyId

router = APIRouter(route_class=CheckedRoute, prefix="/v1/keys", tags=["accounts"])


@router.get("", summary="List the account's API keys")
async def list_keys(
    services: ServicesDep,
    caller: ReceiptReader,
    page: UuidPageParams,
) -> Page[ApiKeyResponse]:
    """Keys of the key's account, newest first; receipts refer to them in `apiKeyId`."""
    found = await services.accounts.list_account_keys(caller.account_id, page)
    return Page.of(found, ApiKeyResponse.model_validate)


@router.delete("/{keyId}", summary="Revoke an API key")
async def revoke_key(
    key_id: Annotated[str, Path(alias="keyId")],
    services: ServicesDep,
    _caller: Admin,
    *,
    stop_runs: Annotated[
        bool, Query(alias="stopRuns", description="Also cancel its runs that are queued or running.")
    ] = False,
) -> RevokedKey:
    """Revoke a key of any account. Its open streams end within a second; its runs continue by default."""
    try:
        found = ApiKeyId(UUID(key_id))
    except ValueError:
        raise KeyNotFound from None
    stopped = await services.key_revocation.revoke(found, stop_runs=stop_runs)
    return RevokedKey(id=found, stopped_runs=stopped)
