"""What every request has to pass before its route runs: a key, a scope, a rate, a kind and size of body."""

from collections.abc import Callable, Coroutine, Hashable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from fastapi import Depends, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match
from starlette.types import Scope as AsgiScope

from app.http.admission.authentication import CallerWith, principal_of
from app.http.admission.bodies import ClientDisconnected
from app.http.admission.limits import limits_of
from app.http.browser import SAFE_METHODS
from app.principal import Scope

SMALL_BODY_BYTES: Final = 262_144
TEXT_BODY_BYTES: Final = 4_194_304
_NO_BODY_BYTES: Final = 65_536
"""Of a body nobody asked for: some clients send `{}` with every POST."""

_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class TakesBody:
    """Declares that a route takes JSON, and how much; None: as much as the server takes at all.

    It is a dependency that does nothing: the route reads it before any dependency is called.
    """

    max_bytes: int | None

    async def __call__(self) -> None:
        """Nothing."""


large_body = Depends(TakesBody(None))
"""For routes that take files or images."""

text_body = Depends(TakesBody(TEXT_BODY_BYTES))
"""For those that take what a model reads, as text."""

small_body = Depends(TakesBody(SMALL_BODY_BYTES))
"""For all others."""


class AdmittedRoute(APIRoute):
    """A route that decides on a request's headers, before its body is read or parsed."""

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """What a caller's key needs; empty where nobody is asked for one."""
        calls = (each.call for each in _all_of(self.dependant))
        scopes = (scope for call in calls if isinstance(call, CallerWith) for scope in call.scopes)
        return tuple(dict.fromkeys(scopes))

    @property
    def takes(self) -> TakesBody | None:
        """The body this route takes."""
        calls = (each.call for each in _all_of(self.dependant))
        return next((call for call in calls if isinstance(call, TakesBody)), None)

    def matches(self, scope: AsgiScope) -> tuple[Match, AsgiScope]:
        """Leave a path that another route has literally to it, whatever the method."""
        if self.param_convertors and scope["path"] in scope["app"].state.literal_paths:
            return Match.NONE, {}
        return super().matches(scope)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler behind the checks."""
        handle = super().get_route_handler()
        scopes, takes = self.scopes, self.takes

        async def admitted(request: Request) -> Response:
            account = await _admitted_account(request, scopes)
            if takes is not None:
                _require_json(request)
            most = _NO_BODY_BYTES if takes is None else takes.max_bytes
            bodies = limits_of(request).bodies
            try:
                async with bodies.reading(
                    request, account, max_bytes=most, scanned=takes is not None
                ) as body:
                    if not body or self.body_field is None:
                        return await handle(_ReadRequest(request, b"", None))
                    value = await bodies.parsed(body, self._validated)
                    del body
                    return await handle(_ReadRequest(request, b"{}", value))
            except ClientDisconnected:
                # Nobody is there to read it.
                return Response(status_code=HTTPStatus.BAD_REQUEST)

        return admitted

    def _validated(self, value: Any) -> Any:
        if self.body_field is None:
            return value
        validated, errors = self.body_field.validate(value, {}, loc=("body",))
        if errors:
            raise RequestValidationError(errors, body=value)
        return validated


def literal_paths(routes: Sequence[BaseRoute]) -> frozenset[str]:
    """The paths that a route has literally, without parameters."""
    paths = (route.path for route in iter_route_contexts(routes))
    return frozenset(path for path in paths if path is not None and "{" not in path)


class _ReadRequest(Request):
    """A request whose body was read and is a value already."""

    def __init__(self, request: Request, body: bytes, value: Any) -> None:
        super().__init__(request.scope, request.receive)
        # Where Starlette keeps what it has read: the handler asks for both again.
        self._body = body
        self._json = value


async def _admitted_account(request: Request, scopes: tuple[Scope, ...]) -> Hashable:
    """Whose request this is; None where nobody is asked."""
    if not scopes:
        return None
    caller = await principal_of(request)
    for scope in scopes:
        caller.require(scope)
    if request.method not in SAFE_METHODS:
        limits_of(request).take_write(caller.api_key_id)
    return caller.account_id


def _require_json(request: Request) -> None:
    # A page of another site can post plain text without asking; it cannot post JSON.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)


def _all_of(dependant: Dependant) -> Iterator[Dependant]:
    for each in dependant.dependencies:
        yield each
        yield from _all_of(each)
