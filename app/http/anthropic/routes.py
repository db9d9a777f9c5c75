"""Routes of the Messages API, for clients' own agents."""

from collections.abc import Callable, Coroutine
from functools import partial
from itertools import takewhile
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request, Response

from app.bootstrap.services import Services
from app.errors import Unavailable
from app.gateway.client.request import ClientRequest
from app.gateway.upstream import COUNT_TOKENS, MESSAGES
from app.http.admission.authentication import RequireScopes, request_principal
from app.http.admission.checks import CheckedRoute, large_body
from app.http.anthropic.errors import PATH
from app.http.anthropic.forwarding import ForwardedAnswer
from app.http.anthropic.openapi import COUNT, COUNT_REQUEST, ERROR_RESPONSES, MESSAGE, MESSAGE_REQUEST
from app.http.anthropic.schemas import AnthropicModels
from app.http.dependencies import ExternalCaller, ServicesDep, posting
from app.platform.serialization.large_json import parsing_size
from app.runs.external.service import ExternalRuns

_SHARED: Final[dict[str, Any]] = {"prefix": PATH, "tags": ["anthropic"], "responses": ERROR_RESPONSES}


class PassingRoute(CheckedRoute):
    """Its function gets the request alone: what the route depends on was checked, or documents it."""

    def get_checked_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The function itself."""
        return self.endpoint


async def _beta(beta: Annotated[str | None, Query(description="Passed on.")] = None) -> None:
    """What clients add to the path."""


router = APIRouter(route_class=CheckedRoute, **_SHARED)
passing = APIRouter(
    route_class=PassingRoute,
    dependencies=[large_body, Depends(RequireScopes("external:write")), Depends(_beta)],
    **_SHARED,
)

_MOST_MODELS: Final = 1000


class NoGateway(Unavailable):
    """This server makes no calls of the model for clients."""


@passing.post(
    "/messages",
    response_model=None,
    responses=MESSAGE,
    openapi_extra=MESSAGE_REQUEST,
    summary="Call the model",
)
async def create_anthropic_message(request: Request) -> Response:
    """Forward a call of the client's own agent as it is, and its answer.

    The calls of a session are the messages of one run. The key is a bearer or in `x-api-key`.
    """
    return await _forwarded(request, path=MESSAGES)


@passing.post(
    "/messages/count_tokens",
    response_model=None,
    responses=COUNT,
    openapi_extra=COUNT_REQUEST,
    summary="Count the tokens of a call",
)
async def count_anthropic_tokens(request: Request) -> Response:
    """Forward the request as it is; it costs nothing."""
    return await _forwarded(request, path=COUNT_TOKENS)


@router.get("/models", summary="List the models that can be called")
async def list_anthropic_models(
    services: ServicesDep,
    caller: ExternalCaller,
    limit: Annotated[int, Query(ge=1, le=_MOST_MODELS)] = 20,
    after_id: str | None = None,
    before_id: str | None = None,
) -> AnthropicModels:
    """Those that the key may use, by id."""
    _external(services).require_allowed(caller)
    known = [
        each.id for each in services.models.known(()) if caller.terms.allows_model((each.id, *each.aliases))
    ]
    if before_id is not None:
        before = list(takewhile(lambda each: each != before_id, known))
        return AnthropicModels.of(before[-limit:], has_more=len(before) > limit)
    after = known[known.index(after_id) + 1 :] if after_id in known else known
    return AnthropicModels.of(after[:limit], has_more=len(after) > limit)


async def _forwarded(request: Request, *, path: str) -> Response:
    caller = await request_principal(request)
    services: Services = request.app.state.services
    external, body = _external(services), await request.body()
    read = partial(ClientRequest.read, path, body, request.scope)
    asked = await services.offload.run(read, size=parsing_size(body))
    forward = partial(external.serve, caller, asked, **await posting(request))
    return ForwardedAnswer(forward, services.credentials.while_valid(caller))


def _external(services: Services) -> ExternalRuns:
    if services.external is None:
        raise NoGateway
    return services.external
