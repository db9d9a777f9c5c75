"""The audit log."""

from typing import Annotated

from fastapi import APIRouter, Query

from app.http.admission.checks import CheckedRoute
from app.http.api.audit.schemas import AuditResponse
from app.http.dependencies import KeyManager, ServicesDep
from app.http.parameters import MomentParam, UuidPageParams
from app.http.response_model import Page
from app.platform.audit.records import AuditFilter

router = APIRouter(route_class=CheckedRoute, prefix="/v1/audit", tags=["accounts"])


@router.get("", summary="List what was done to accounts, keys and credit")
async def list_audit_entries(
    services: ServicesDep,
    caller: KeyManager,
    page: UuidPageParams,
    account: Annotated[
        str | None, Query(description="Its name; by default all that the key may see.")
    ] = None,
    action: Annotated[str | None, Query(max_length=100, pattern=r"^[a-z_.]+$")] = None,
    since: Annotated[MomentParam | None, Query(alias="from")] = None,
    until: Annotated[MomentParam | None, Query(alias="to", description="Exclusive.")] = None,
) -> Page[AuditResponse]:
    """Entries of the caller's account, or with `admin` of all, newest first; none is ever changed."""
    own = None if caller.may("admin") else caller.account_id
    chosen = own if account is None else (await services.accounts.find_visible(caller, account)).id
    found, cursor = await services.audit.list_entries(AuditFilter(chosen, action, since, until), page)
    names = await services.accounts.find_names({entry.account_id for entry in found})
    items = [AuditResponse.of(entry, names[entry.account_id], visible_to=own) for entry in found]
    return Page(items=items, next_cursor=cursor)
