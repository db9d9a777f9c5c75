"""Routes of the Model Context Protocol."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Depends, Header, Request, Response
from mcp.shared.auth import ProtectedResourceMetadata
from sse_starlette import EventSourceResponse
from starlette.datastructures import Headers

from app.errors import AppError, NotFound, Unauthenticated
from app.http.admission.checks import CheckedRoute, text_body
from app.http.dependencies import (
    ApprovalsPage,
    BaseUrl,
    PostingDep,
    ServicesDep,
    Writer,
    base_url,
    run_streams,
)
from app.http.mcp.errors import PATH
from app.http.mcp.exchange import McpExchange
from app.http.mcp.openapi import ANSWER, ERROR_RESPONSES, MESSAGE_REQUEST, RESUMED
from app.http.problems import error_response
from app.platform.logs.context import note

METADATA_PATH: Final = f"/.well-known/oauth-protected-resource{PATH}"


class NoTokens(NotFound):
    """This server trusts no issuer of tokens: send an API key."""


class NothingToResume(AppError):
    """There is no stream of the server's own: send Last-Event-ID to get the rest of a call."""

    status = 405
    code = "method_not_allowed"


class McpRoute(CheckedRoute):
    """A route that says where clients get a token."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Handle the request; a refused credential is answered with where the metadata is."""
        handle = super().get_route_handler()

        async def handle_signed_in(request: Request) -> Response:
            try:
                return await handle(request)
            except Unauthenticated as error:
                if not request.app.state.services.tokens.issuers:
                    raise
                note(code=error.code)
                response = error_response(error)
                url = f"{await base_url(request)}{METADATA_PATH}"
                response.headers["WWW-Authenticate"] = f'Bearer resource_metadata="{url}"'
                return response

        return handle_signed_in


router = APIRouter(route_class=McpRoute, tags=["mcp"], responses=ERROR_RESPONSES)
metadata_router = APIRouter(route_class=CheckedRoute, tags=["mcp"])


async def exchange(
    request: Request,
    services: ServicesDep,
    caller: Writer,
    posting: PostingDep,
    page: ApprovalsPage,
) -> McpExchange:
    """Handles this request."""
    # Not as a dependency: who has as many streams as there may be can still answer and cancel.
    streams = partial(run_streams, request)
    # The parser of HTTP leaves the whitespace after a value, and values are compared with the message.
    headers = Headers(raw=[(name, value.strip()) for name, value in request.headers.raw])
    return McpExchange(services, caller, posting, streams, page, headers)


@router.post(
    PATH,
    dependencies=[text_body],
    response_model=None,
    responses=ANSWER,
    openapi_extra=MESSAGE_REQUEST,
    summary="Send an MCP message",
)
async def send_mcp_message(
    body: Annotated[dict[str, Any], Body()], exchange: Annotated[McpExchange, Depends(exchange)]
) -> Response:
    """Answer a message of the Model Context Protocol, in any of its revisions. Each graph is a tool.

    A call is answered with a stream. Disconnecting does not stop its run, unless that is the default of the
    graph or of the server.
    """
    return await exchange.respond(body)


@router.get(
    PATH,
    response_model=None,
    response_class=EventSourceResponse,
    responses=RESUMED,
    summary="Resume the stream of a call",
)
async def resume_mcp_call(
    exchange: Annotated[McpExchange, Depends(exchange)],
    last_event_id: Annotated[
        str | None,
        Header(alias="Last-Event-ID", description="Of the last event that the client has received."),
    ] = None,
) -> Response:
    """Send what comes after an event of a call's stream."""
    if last_event_id is None:
        raise NothingToResume
    return await exchange.resumed(last_event_id)


@metadata_router.get(METADATA_PATH, response_model=None, summary="Who makes tokens for MCP clients")
async def mcp_resource_metadata(services: ServicesDep, base_url: BaseUrl) -> dict[str, Any]:
    """The metadata of a protected resource (RFC 9728): issuers whose tokens are accepted beside API keys."""
    issuers = [each.issuer for each in services.tokens.issuers if each.is_url]
    if not issuers:
        raise NoTokens
    found = ProtectedResourceMetadata.model_validate(
        {
            "resource": f"{base_url}{PATH}",
            "authorization_servers": issuers,
            "resource_name": "Runtally",
        }
    )
    return found.model_dump(mode="json", exclude_none=True)
