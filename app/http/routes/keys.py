"""The API keys of an account, by the names people gave them."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from app.http.admission import AdmittedRoute
from app.http.dependencies import ReceiptReader, ServicesDep
from app.http.schemas import Moment, Page, Shape
from app.paging import MAX_PAGE

router = APIRouter(route_class=AdmittedRoute, prefix="/v1/keys", tags=["accounts"])


class KeyShape(Shape):
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
) -> Page[KeyShape]:
    """Whom receipts name in `apiKeyId`: keys of the key's account, newest first."""
    found, next_cursor = await services.accounts.keys_of(caller.account_id, limit=limit, cursor=cursor)
    return Page[KeyShape](items=[KeyShape.model_validate(key) for key in found], next_cursor=next_cursor)
