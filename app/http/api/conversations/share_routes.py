"""Share links of conversations, and what they show to anybody who has one."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from app.http.admission.authentication import authenticate_limited
from app.http.admission.checks import CheckedRoute, small_body
from app.http.admission.limits import request_limits
from app.http.api.conversations.routes import StateKey
from app.http.api.conversations.share_schemas import (
    CreatedShare,
    NewShare,
    SharedConversation,
    ShareResponse,
)
from app.http.dependencies import ActorDep, BaseUrl, RunReader, ServicesDep, Sharer
from app.http.response_model import Page
from app.runs.conversations.sharing.records import ConversationShare
from app.runs.conversations.sharing.service import ShareEnded

router = APIRouter(route_class=CheckedRoute, prefix="/v1", tags=["sessions"])

_SHARES = "/sessions/{stateKey}/shares"
_token = HTTPBearer(auto_error=False, scheme_name="ShareLink", description="Of a share link: `rts_…`.")


async def _share(
    request: Request,
    services: ServicesDep,
    token: Annotated[HTTPAuthorizationCredentials | None, Depends(_token)],
) -> ConversationShare:
    if token is None:
        raise ShareEnded
    share = await authenticate_limited(request, token.credentials, services.shares.find)
    request_limits(request).count_shared_read(share.id)
    return share


@router.post(_SHARES, status_code=201, dependencies=[small_body], summary="Share a conversation")
async def create_share(
    state_key: StateKey,
    body: NewShare,
    services: ServicesDep,
    caller: Sharer,
    base_url: BaseUrl,
    actor: ActorDep,
    response: Response,
) -> CreatedShare:
    """A link by which anybody reads what the conversation has now, until it expires or is revoked."""
    share, token = await services.shares.create(
        caller, state_key, expires_at=body.expires_at, with_tool_calls=body.with_tool_calls, by=actor
    )
    response.headers["Cache-Control"] = "no-store"
    return CreatedShare.of(share, token, f"{base_url}/shared")


@router.get(_SHARES, summary="List a conversation's share links")
async def list_shares(state_key: StateKey, services: ServicesDep, caller: RunReader) -> Page[ShareResponse]:
    """Those that have not expired, newest first; they always fit on one page."""
    shares = await services.shares.list_shares(caller.account_id, state_key)
    return Page.of((shares, None), ShareResponse.model_validate)


@router.delete(f"{_SHARES}/{{shareId}}", status_code=204, summary="Revoke a share link")
async def revoke_share(
    state_key: StateKey,
    share_id: Annotated[UUID, Path(alias="shareId")],
    services: ServicesDep,
    caller: Sharer,
    actor: ActorDep,
) -> None:
    """The link shows nothing any more."""
    await services.shares.revoke(caller.account_id, state_key, share_id, by=actor)


@router.get("/shared", response_model_exclude_unset=True, summary="Read a shared conversation")
async def read_shared(
    services: ServicesDep,
    share: Annotated[ConversationShare, Depends(_share)],
    response: Response,
    cursor: str | None = None,
) -> SharedConversation:
    """What a share link shows. Its token is the credential; no API key is needed, and none is accepted."""
    page = await services.shares.read(share, cursor)
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Robots-Tag"] = "noindex"
    return SharedConversation.of(page)
