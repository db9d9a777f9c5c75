"""Dependencies of routes: caller, services, path and header parameters. None holds a database session.

All are coroutines: FastAPI calls any other function in a thread, which takes longer than most of a request.
What needs nothing but the request is called by what needs it, because FastAPI takes longer to solve a
dependency than most of these do.
"""

import re
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Annotated, TypeAlias, cast

from fastapi import Depends, Header, Path, Query, Request

from app.bootstrap.services import Services
from app.errors import Invalid
from app.graphs.spec import GraphSpec
from app.http.admission.authentication import RequireScopes, request_principal
from app.http.admission.checks import request_fingerprint
from app.http.admission.limits import request_limits
from app.http.middleware import REQUEST_ID
from app.http.streaming.closing import OpenStream, OpenStreams
from app.http.streaming.run_streams import RunStreams
from app.http.streaming.sse import OpenReader
from app.ids import RUN_ID_PATTERN, AccountId, RunId, RunKey
from app.platform.audit.records import Actor
from app.platform.telemetry.trace_context import CallerTrace
from app.requests.principal import Principal
from app.requests.run_request import GRAPH_ID_PATTERN
from app.runs.commands.service import RunNotFound
from app.runs.records import RunRecord
from app.runs.requests.posted import Posting

_MAX_KEY_CHARS = 255


async def services(request: Request) -> Services:
    found: Services = request.app.state.services
    return found


ServicesDep: TypeAlias = Annotated[Services, Depends(services)]


async def heartbeat_s(request: Request) -> float:
    """Seconds without output after which a stream sends a heartbeat."""
    found: float = request.app.state.heartbeat_s
    return found


HeartbeatS: TypeAlias = Annotated[float, Depends(heartbeat_s)]


Writer: TypeAlias = Annotated[Principal, Depends(RequireScopes("runs:write"))]
ReadWriter: TypeAlias = Annotated[Principal, Depends(RequireScopes("runs:write", "runs:read"))]
RunReader: TypeAlias = Annotated[Principal, Depends(RequireScopes("runs:read"))]
Approver: TypeAlias = Annotated[Principal, Depends(RequireScopes("runs:approve"))]
Sharer: TypeAlias = Annotated[Principal, Depends(RequireScopes("runs:share", "runs:read"))]
Auditor: TypeAlias = Annotated[Principal, Depends(RequireScopes("runs:audit"))]
ReceiptReader: TypeAlias = Annotated[Principal, Depends(RequireScopes("receipts:read"))]
ExternalCaller: TypeAlias = Annotated[Principal, Depends(RequireScopes("external:write"))]
KeyManager: TypeAlias = Annotated[Principal, Depends(RequireScopes("keys:write"))]
BudgetManager: TypeAlias = Annotated[Principal, Depends(RequireScopes("budgets:write"))]
Admin: TypeAlias = Annotated[Principal, Depends(RequireScopes("admin"))]
MetricsReader: TypeAlias = Annotated[Principal, Depends(RequireScopes("metrics:read"))]


async def _named_account(
    services: ServicesDep,
    caller: Annotated[Principal, Depends(request_principal)],
    account: Annotated[
        str | None, Query(description="Its name; by default the key's. Others need `admin`.")
    ] = None,
) -> AccountId | None:
    return None if account is None else (await services.accounts.find_visible(caller, account)).id


NamedAccount: TypeAlias = Annotated[AccountId | None, Depends(_named_account)]
"""The account that the parameter `account` names."""


async def _chosen_account(
    caller: Annotated[Principal, Depends(request_principal)], named: NamedAccount
) -> AccountId:
    return named or caller.account_id


OfAccount: TypeAlias = Annotated[AccountId, Depends(_chosen_account)]


async def open_export_reader(request: Request) -> OpenReader:
    """Opens reader scopes: count the reader, and end the response when its credential is revoked."""
    readers, credentials = request_limits(request).readers, (await services(request)).credentials

    @contextmanager
    def reader_scope(caller: Principal, source: Hashable) -> Iterator[None]:
        with readers.slot(caller.rated_as, source), credentials.while_valid(caller):
            yield

    return reader_scope


OpenExportReader: TypeAlias = Annotated[OpenReader, Depends(open_export_reader)]


async def open_stream_reader(request: Request) -> OpenReader:
    """The same for what ends when the server stops; raises `TooManyReaders` before a run is started."""
    request_limits(request).readers.check((await request_principal(request)).rated_as)
    opened, streams = await open_export_reader(request), cast("OpenStreams", request.app.state.open_streams)

    @contextmanager
    def reader_scope(caller: Principal, source: Hashable) -> Iterator[OpenStream]:
        with opened(caller, source), streams.opened() as stream:
            yield stream

    return reader_scope


OpenStreamReader: TypeAlias = Annotated[OpenReader, Depends(open_stream_reader)]


async def run_streams(request: Request) -> RunStreams:
    """Responds with a run; raises `TooManyReaders` before one is started."""
    opened = await open_stream_reader(request)
    return RunStreams(request, await services(request), await heartbeat_s(request), opened)


RunStreamsDep: TypeAlias = Annotated[RunStreams, Depends(run_streams)]
RunIdParam: TypeAlias = Annotated[str, Path(alias="runId")]
GraphIdParam: TypeAlias = Annotated[
    str, Path(alias="graphId", json_schema_extra={"pattern": GRAPH_ID_PATTERN, "maxLength": 200})
]


def run_key(caller: Principal, run_id: str) -> RunKey:
    """The caller's run with this id; raises `RunNotFound` for malformed ids."""
    # PostgreSQL would reject some malformed ids.
    if not re.fullmatch(RUN_ID_PATTERN, run_id):
        raise RunNotFound
    return RunKey(caller.account_id, RunId(run_id))


async def visible_run(services: Services, caller: Principal, run_id: str) -> RunRecord:
    """A run that the caller may read, also without contents; raises `RunNotFound`, `ScopeMissing`.

    For those who send it something, too: they could ask the agent for what other keys have sent to it.
    """
    record = await services.runs.get(run_key(caller, run_id))
    caller.require_reading(record.api_key_id, record.labels.end_user)
    return record


async def readable_run(services: Services, caller: Principal, run_id: str) -> RunRecord:
    """A run that the caller may read; raises `RunNotFound`, `RunDeleted`, `ScopeMissing`."""
    record = await services.runs.get_with_contents(run_key(caller, run_id))
    caller.require_reading(record.api_key_id, record.labels.end_user)
    return record


def usable_graphs(services: Services, caller: Principal) -> list[GraphSpec]:
    return [graph for graph in services.graphs.all() if caller.terms.allows_graph(graph.id)]


async def location(request: Request) -> Callable[[str], str]:
    """Makes the value of a `Location` header from a path, with the prefix that a proxy removes."""
    prefix = request.app.state.services.settings.path_prefix or request.scope.get("root_path", "")
    return lambda path: f"{prefix}{path}"


Location: TypeAlias = Annotated[Callable[[str], str], Depends(location)]


async def base_url(request: Request) -> str:
    """The URL of this server, by the address that the client has used."""
    return f"{str(request.base_url).removesuffix('/')}{(await location(request))('')}"


BaseUrl: TypeAlias = Annotated[str, Depends(base_url)]


async def approvals_page(request: Request) -> str:
    """The URL of the page where a person answers what waits."""
    return f"{await base_url(request)}/approvals"


ApprovalsPage: TypeAlias = Annotated[str, Depends(approvals_page)]


async def request_id(request: Request) -> str:
    found: str = request.scope["state"][REQUEST_ID]
    return found


RequestId: TypeAlias = Annotated[str, Depends(request_id)]


async def actor(request: Request) -> Actor:
    """The caller, as the audit log names it."""
    caller = await request_principal(request)
    address = request.client.host if request.client else None
    return Actor("http", caller.api_key_id, caller.account_id, address, await request_id(request))


ActorDep: TypeAlias = Annotated[Actor, Depends(actor)]


async def caller_trace(request: Request) -> CallerTrace | None:
    """The span that the request's `traceparent` names; None without a valid one."""
    headers = request.headers
    return CallerTrace.read(headers.getlist("traceparent"), headers.getlist("tracestate"))


async def idempotency_key(
    idempotency_key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            description="Requests with the same key take effect once.",
            json_schema_extra={"pattern": "^[!-~]([ -~]{0,253}[!-~])?$"},
        ),
    ] = None,
) -> str | None:
    """The `Idempotency-Key`; raises `Invalid` if it is empty, too long or not printable ASCII."""
    if idempotency_key is None:
        return None
    plain = idempotency_key.isascii() and idempotency_key.isprintable()
    if not (plain and 0 < len(idempotency_key) <= _MAX_KEY_CHARS):
        raise Invalid.field("Idempotency-Key", f"must be 1 to {_MAX_KEY_CHARS} printable characters")
    return idempotency_key


IdempotencyKey: TypeAlias = Annotated[str | None, Depends(idempotency_key)]


async def posting(request: Request) -> Posting:
    """What is known of a request that posts a run, besides its body."""
    return Posting(request_id=await request_id(request), caller_trace=await caller_trace(request))


PostingDep: TypeAlias = Annotated[Posting, Depends(posting)]


async def keyed_posting(request: Request, key: IdempotencyKey) -> Posting:
    """The same where requests may have an `Idempotency-Key`."""
    return Posting(**await posting(request), idempotency_key=key)


KeyedPosting: TypeAlias = Annotated[Posting, Depends(keyed_posting)]


async def fingerprinted_posting(
    request: Request,
    key: IdempotencyKey,
    fingerprint: Annotated[bytes | None, Depends(request_fingerprint)],
) -> Posting:
    """The same where requests are equal if their bodies are: conversations are found, or made, for them."""
    return Posting(**await keyed_posting(request, key), fingerprint=fingerprint)


FingerprintedPosting: TypeAlias = Annotated[Posting, Depends(fingerprinted_posting)]
