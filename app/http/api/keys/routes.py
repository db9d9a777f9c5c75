"""The API keys of an account, by the names people gave them."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query

from app.auth.accounts import KeyNotFound
from app.http.admission.checks import AdmittedRoute
from app.http.dependencies import Admin, ReceiptReader, ServicesDep
from app.http.schemas import Moment, Page, ResponseModel
from app.ids import ApiKeyId
from app.pagination import MAX_PAGE

router = APIRouter(route_class=AdmittedRoute, prefix="/v1/keys", tags=["accounts"])


class ApiKeyResponse(ResponseModel):
    """An API key, without the key: `prefix` is how it begins."""

    id: UUID
    name: str | None
    prefix: str
    created_at: Moment
    last_used_at: Moment | None
    revoked_at: Moment | None


@router.get("", summary="List the account's API keys")
async def list_keys(
    services: ServicesDep,
    caller: ReceiptReader,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
    cursor: str | None = None,
) -> Page[ApiKeyResponse]:
    """Whom receipts name in `apiKeyId`: keys of the key's account, newest first."""
    found, next_cursor = await services.accounts.keys_of(caller.account_id, limit=limit, cursor=cursor)
    return Page[ApiKeyResponse](
        items=[ApiKeyResponse.model_validate(key) for key in found], next_cursor=next_cursor
    )


class RevokedKey(ResponseModel):
    """A key that opens nothing any more; `stoppedRuns` are those that were asked to stop."""

    id: UUID
    stopped_runs: int


@router.delete("/{keyId}", summary="Revoke an API key")
async def revoke_key(
    key_id: Annotated[str, Path(alias="keyId")],
    services: ServicesDep,
    _caller: Admin,
    *,
    stop_runs: Annotated[
        bool, Query(alias="stopRuns", description="Also cancel its runs that wait or are under way.")
    ] = False,
) -> RevokedKey:
    """A key of any account, by its id. Its open streams end within a second; its runs go on unless told."""
    try:
        found = ApiKeyId(UUID(key_id))
    except ValueError:
        raise KeyNotFound from None
    stopped = await services.key_revocation.revoke(found, stop_runs=stop_runs)
    return RevokedKey(id=found, stopped_runs=stopped)
