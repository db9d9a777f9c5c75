"""CheckedRoute: checks credential, scopes, rate, parameters, content type and size before a route runs."""

from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from threading import RLock
from typing import Any, Final

from fastapi import Depends, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Match, compile_path
from starlette.types import Scope as AsgiScope

from app.errors import FieldError, Invalid, UnsupportedMediaType
from app.http.admission.authentication import RequireScopes, request_principal
from app.http.admission.bodies import ClientDisconnected
from app.http.admission.end_users import require_own
from app.http.admission.limits import request_limits
from app.http.admission.request_origin import SAFE_METHODS
from app.http.field_errors import MAX_NAME_CHARS
from app.http.problems import ERRORS, Problem
from app.requests.principal import Scope
from app.runs.requests.posted import fingerprint_of

SMALL_BODY_BYTES: Final = 262_144
TEXT_BODY_BYTES: Final = 4_194_304
_NO_BODY_BYTES: Final = 65_536
"""For routes without a body: some clients send `{}` with every POST."""

_JSON: Final = "application/json"
_PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {status: {"model": Problem} for status in ERRORS}
_MAX_NAMED: Final = 10
_PREPARING: Final = RLock()
_FINGERPRINT: Final = "fingerprint"
_LIST: Final = "[]"
"""How the names of parameters end that may be given several times."""


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """Declares that a route takes a body of at most `max_bytes`; None: the server's own limit.

    It is JSON, or may be of other `media_types`: then the route reads its bytes itself.

    As a dependency it does nothing: `CheckedRoute` looks for it before any dependency is called.
    """

    max_bytes: int | None
    is_optional: bool = False
    media_types: frozenset[str] = frozenset({_JSON})
    may_be_gzip: bool = False
    """Whether the route also reads what is compressed."""

    @property
    def is_json(self) -> bool:
        """Whether it is parsed as JSON before the route runs."""
        return self.media_types == {_JSON}

    async def __call__(self) -> None:
        """Do nothing."""


large_body = Depends(BodyLimit(None))
"""For routes that accept files or images."""

JSON_LINES: Final = ("application/jsonl", "application/x-ndjson")
lines_body = Depends(BodyLimit(None, is_optional=True, media_types=frozenset(JSON_LINES)))
"""For routes that accept lines of JSON, in the body or elsewhere."""

text_body = Depends(BodyLimit(TEXT_BODY_BYTES))
"""For routes that accept text for a model."""

small_body = Depends(BodyLimit(SMALL_BODY_BYTES))
"""For all other routes with a body."""

optional_body = Depends(BodyLimit(SMALL_BODY_BYTES, is_optional=True))
"""For routes that are mostly called without one."""


async def request_fingerprint(request: Request) -> bytes | None:
    """Of the `Idempotency-Key`, the path and the body; None without a key.

    `CheckedRoute` looks for this dependency: it makes the fingerprint while it has the body.
    """
    found: bytes | None = request.scope["state"].get(_FINGERPRINT)
    return found


class CheckedRoute(APIRoute):
    """A route that checks a request's headers before it reads and parses the body.

    It is complete when it is declared, so that no router has to be included in another: FastAPI would prepare
    every route a second time, and look for a request's route twice. It is prepared when it is first requested
    or documented: preparing all takes a tenth of the time to start a server.
    """

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        responses: Mapping[int | str, dict[str, Any]],
        **options: Any,
    ) -> None:
        """See FastAPI. The operation has the name of the function; its errors are problems by default."""
        # What is looked at to find the route of a request.
        self.path = path
        self.path_regex, self.path_format, self.param_convertors = compile_path(path)
        self._prepare = partial(
            super().__init__,
            *(path, endpoint),
            **{**options, "generate_unique_id_function": lambda route: route.name},
            responses={**_PROBLEMS, **responses},
        )

    def __getattr__(self, name: str) -> Any:
        """Prepare the route: called for what it does not have yet, also by the thread that documents it."""
        with _PREPARING:
            if (prepare := self.__dict__.pop("_prepare", None)) is not None:
                prepare()
            if name not in self.__dict__:
                raise AttributeError(name)
            return self.__dict__[name]

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Scopes the caller needs; empty for routes without authentication."""
        calls = (each.call for each in _sub_dependants(self.dependant))
        scopes = (scope for call in calls if isinstance(call, RequireScopes) for scope in call.scopes)
        return tuple(dict.fromkeys(scopes))

    @property
    def body_limit(self) -> BodyLimit | None:
        calls = (each.call for each in _sub_dependants(self.dependant))
        return next((call for call in calls if isinstance(call, BodyLimit)), None)

    @property
    def query_parameters(self) -> frozenset[str] | None:
        """The names that a query may have; None if it is for the browser: scripts of pages read it."""
        if not self.include_in_schema:
            return None
        dependants = (self.dependant, *_sub_dependants(self.dependant))
        return frozenset(parameter.alias for each in dependants for parameter in each.query_params)

    def matches(self, scope: AsgiScope) -> tuple[Match, AsgiScope]:
        """Do not match a path that another route has without parameters, whatever the method."""
        # Before all else: every request looks at most routes.
        if not scope.get("root_path") and self.path_regex.match(scope["path"]) is None:
            return Match.NONE, {}
        if self.param_convertors and scope["path"] in scope["app"].state.literal_paths:
            return Match.NONE, {}
        return super().matches(scope)

    def get_checked_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What handles a request that was checked: FastAPI's handler, which calls the dependencies."""
        return super().get_route_handler()

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Run the checks, then the handler."""
        handle = self.get_checked_handler()
        scopes, body_limit, parameters = self.scopes, self.body_limit, self.query_parameters
        is_fingerprinted = any(each.call is request_fingerprint for each in _sub_dependants(self.dependant))

        async def handle_checked(request: Request) -> Response:
            account = await _check_headers(request, scopes)
            if parameters is not None:
                _check_parameters(request, parameters)
            if body_limit is not None and (_has_body(request) or not body_limit.is_optional):
                _require_readable(request, body_limit)
            is_json = body_limit is not None and body_limit.is_json
            max_bytes = _NO_BODY_BYTES if body_limit is None else body_limit.max_bytes
            bodies = request_limits(request).bodies
            try:
                async with bodies.open(request, account, max_bytes=max_bytes, scan_json=is_json) as body:
                    if is_fingerprinted:
                        await _fingerprint(request, body)
                    if not body or self.body_field is None:
                        unread = b"" if body_limit is None else body
                        return await handle(_ParsedRequest(request, unread, None))
                    value = await bodies.parse(body, self._validated)
                    del body
                    return await handle(_ParsedRequest(request, b"{}", value))
            except ClientDisconnected:
                # The client has disconnected and does not read this response.
                return Response(status_code=HTTPStatus.BAD_REQUEST)

        return handle_checked

    def _validated(self, value: Any) -> Any:
        if self.body_field is None:
            return value
        validated, errors = self.body_field.validate(value, {}, loc=("body",))
        if errors:
            raise RequestValidationError(errors, body=value)
        return validated


def _has_body(request: Request) -> bool:
    return "transfer-encoding" in request.headers or request.headers.get("content-length", "0") != "0"


def literal_paths(routes: Sequence[BaseRoute]) -> frozenset[str]:
    paths = (route.path for route in routes if isinstance(route, CheckedRoute))
    return frozenset(path for path in paths if "{" not in path)


class _ParsedRequest(Request):
    """A request whose body has been read and parsed."""

    def __init__(self, request: Request, body: bytes, value: Any) -> None:
        super().__init__(request.scope, request.receive)
        # Starlette caches body and JSON in these attributes; the handler reads both again.
        self._body = body
        self._json = value
        self._headers = request.headers
        if len(_content_types(request)) > 1:
            # FastAPI reads only one value as JSON.
            self._headers = headers = request.headers.mutablecopy()
            headers["content-type"] = _JSON


async def _check_headers(request: Request, scopes: tuple[Scope, ...]) -> Hashable:
    """Check caller, scopes, rate and end user; returns the account, or None without authentication."""
    if not scopes:
        return None
    caller = await request_principal(request)
    for scope in scopes:
        caller.require(scope)
    request_limits(request).count_request(caller)
    if request.method not in SAFE_METHODS:
        request_limits(request).count_write(caller.rated_as)
    await require_own(request, caller)
    return caller.account_id


def _check_parameters(request: Request, parameters: frozenset[str]) -> None:
    """A filter that is misspelt would select everything, of one that is given twice the last would count."""
    given = Counter(name for name, _ in request.query_params.multi_items())
    unknown = given.keys() - parameters
    twice = {name for name, times in given.items() if times > 1 and not name.endswith(_LIST)}
    if unknown or twice:
        known = f"its parameters are {', '.join(sorted(parameters))}" if parameters else "it has none"
        errors = [
            FieldError(name[:MAX_NAME_CHARS], f"is not a parameter of this request: {known}")
            if name in unknown
            else FieldError(name, "is given twice")
            for name in given
            if name in unknown | twice
        ]
        raise Invalid(f"{errors[0].field}: {errors[0].message}", errors=errors[:_MAX_NAMED])


def _require_readable(request: Request, limit: BodyLimit) -> None:
    # A page of another site can post plain text without a CORS preflight; it can post none of these.
    given, allowed = set(_content_types(request)), limit.media_types
    if len(given) != 1 or not given <= allowed:
        raise UnsupportedMediaType(f"Send the body with Content-Type: {' or '.join(sorted(allowed))}.")
    encodings = {"identity", *(["gzip"] if limit.may_be_gzip else [])}
    if not set(_values(request, "content-encoding")) <= encodings:
        way = "Content-Encoding: gzip, or without this header" if limit.may_be_gzip else "no Content-Encoding"
        raise UnsupportedMediaType(f"Send the body with {way}.")


async def _fingerprint(request: Request, body: bytes) -> None:
    if (key := request.headers.get("idempotency-key")) is not None:
        compute = partial(fingerprint_of, key, request.scope["path"], body)
        found = await request_limits(request).bodies.offload.run(compute, size=len(body))
        request.scope["state"][_FINGERPRINT] = found


def _content_types(request: Request) -> list[str]:
    """Without parameters; a client whose library adds the header to the application's own sends it twice."""
    return [value.partition(";")[0].rstrip() for value in _values(request, "content-type")]


def _values(request: Request, name: str) -> list[str]:
    """The values of a header, in all of its lines."""
    return [value.strip().lower() for line in request.headers.getlist(name) for value in line.split(",")]


def _sub_dependants(dependant: Dependant) -> Iterator[Dependant]:
    for each in dependant.dependencies:
        yield each
        yield from _sub_dependants(each)
