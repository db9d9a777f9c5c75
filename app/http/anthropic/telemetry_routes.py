"""Telemetry of Claude Code (OTLP/HTTP), with the account, key and end user of the key that sends it."""

import zlib
from typing import Annotated, Any, Final, TypeAlias

from fastapi import APIRouter, Depends, Header, Request, Response

from app.bootstrap.services import Services
from app.errors import Invalid, TooLarge
from app.http.admission.checks import BodyLimit, CheckedRoute
from app.http.anthropic.errors import PATH
from app.http.anthropic.openapi import ERROR_RESPONSES
from app.http.dependencies import ExternalCaller, ServicesDep
from app.platform.telemetry.clients.relay import Signal
from app.requests.attribution import Attributed, EndUser
from app.requests.principal import GraphNotAllowed, Principal
from app.runs.external.starting import GRAPH

MAX_BYTES: Final = 2**20
"""Of a body, and of what it is when it is not compressed."""

_JSON: Final = "application/json"
_TYPES: Final = (_JSON, "application/x-protobuf")
_GZIP: Final = zlib.MAX_WBITS | 16
_SENT: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "It was taken, whatever becomes of it. The answer has the type of the request.",
        "content": {_JSON: {"schema": {"type": "object"}}},
    }
}
_BODY: Final = {
    "requestBody": {
        "description": f"A request of OTLP, also as `{_TYPES[1]}`, and compressed with gzip.",
        "required": True,
        "content": {_JSON: {"schema": {"type": "object", "additionalProperties": True}}},
    }
}

router = APIRouter(
    route_class=CheckedRoute,
    prefix=PATH,
    tags=["anthropic"],
    responses={**ERROR_RESPONSES, **_SENT},
    dependencies=[Depends(BodyLimit(MAX_BYTES, media_types=frozenset(_TYPES), may_be_gzip=True))],
)
NamedUser: TypeAlias = Annotated[
    EndUser | None, Header(alias="Runtally-End-User", description="As with messages.")
]


@router.post("/metrics", response_class=Response, openapi_extra=_BODY, summary="Send metrics of Claude Code")
async def export_anthropic_metrics(
    request: Request, services: ServicesDep, caller: ExternalCaller, end_user: NamedUser = None
) -> Response:
    """Take metrics (OTLP); they go where those of this server go."""
    return await _taken(request, services, caller, end_user, signal="metrics")


@router.post("/logs", response_class=Response, openapi_extra=_BODY, summary="Send events of Claude Code")
async def export_anthropic_logs(
    request: Request, services: ServicesDep, caller: ExternalCaller, end_user: NamedUser = None
) -> Response:
    """Take events (OTLP logs)."""
    return await _taken(request, services, caller, end_user, signal="logs")


@router.post("/traces", response_class=Response, openapi_extra=_BODY, summary="Send traces of Claude Code")
async def export_anthropic_traces(
    request: Request, services: ServicesDep, caller: ExternalCaller, end_user: NamedUser = None
) -> Response:
    """Take spans (OTLP); they go where those of this server go."""
    return await _taken(request, services, caller, end_user, signal="traces")


async def _taken(
    request: Request, services: Services, caller: Principal, end_user: str | None, *, signal: Signal
) -> Response:
    if not caller.terms.allows_graph(GRAPH.id):
        raise GraphNotAllowed
    attributes = _attributes(caller, end_user)
    body = _decompressed(request.headers.get("content-encoding", "identity").lower(), await request.body())
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if (relay := services.telemetry.clients.get(signal)) is not None:
        await relay.accept(body, media_type, attributes, account=caller.account_id)
    # Also where nothing is done with it: clients would show an error again and again.
    return Response(b"{}" if media_type == _JSON else b"", media_type=media_type)


def _attributes(caller: Principal, end_user: str | None) -> dict[str, str]:
    """What an export is of, as spans of runs name it."""
    labels = caller.labelled(Attributed.of(end_user=end_user))
    return {
        "service.name": "claude-code",
        "runtally.account": str(caller.account_id),
        "runtally.api_key": str(caller.api_key_id),
        **({} if labels.end_user is None else {"user.id": labels.end_user}),
        **{f"runtally.tag.{name}": value for name, value in (labels.tags or {}).items()},
    }


def _decompressed(encoding: str, body: bytes) -> bytes:
    if encoding == "identity":
        return body
    stream = zlib.decompressobj(_GZIP)
    try:
        found = stream.decompress(body, MAX_BYTES + 1)
    except zlib.error as error:
        raise Invalid("The body is not compressed with gzip.") from error
    if len(found) > MAX_BYTES:
        raise TooLarge(f"The request body is larger than {MAX_BYTES} bytes when it is not compressed.")
    if not stream.eof or stream.unused_data:
        raise Invalid("The body is not compressed with gzip.")
    return found
