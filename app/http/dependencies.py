"""What routes ask for: who is calling, and the services. None of them holds a database session."""

import re
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Annotated, TypeAlias

from fastapi import Depends, Header, Path, Request

from app.bootstrap.services import Services
from app.errors import Invalid
from app.http.admission.authentication import CallerWith, principal_of
from app.http.admission.limits import limits_of
from app.http.middleware import REQUEST_ID
from app.ids import RUN_ID_PATTERN, RunId, RunKey
from app.principal import Principal
from app.requests import GRAPH_ID_PATTERN
from app.runs.commands.service import RunNotFound

OpenReading: TypeAlias = Callable[[Principal, Hashable], AbstractContextManager[None]]

_MAX_KEY_CHARS = 255


def services(request: Request) -> Services:
    """Everything the routes speak to."""
    found: Services = request.app.state.services
    return found


ServicesDep: TypeAlias = Annotated[Services, Depends(services)]


def heartbeat_s(request: Request) -> float:
    """How long a stream may be silent."""
    found: float = request.app.state.heartbeat_s
    return found


HeartbeatS: TypeAlias = Annotated[float, Depends(heartbeat_s)]


Writer: TypeAlias = Annotated[Principal, Depends(CallerWith("runs:write"))]
ReadingWriter: TypeAlias = Annotated[Principal, Depends(CallerWith("runs:write", "runs:read"))]
RunReader: TypeAlias = Annotated[Principal, Depends(CallerWith("runs:read"))]
Approver: TypeAlias = Annotated[Principal, Depends(CallerWith("runs:approve"))]
ReceiptReader: TypeAlias = Annotated[Principal, Depends(CallerWith("receipts:read"))]
Admin: TypeAlias = Annotated[Principal, Depends(CallerWith("admin"))]


def exporting(request: Request, services: ServicesDep) -> OpenReading:
    """What a reader reads within: a run, or the receipts of an account."""
    readers = limits_of(request).readers

    @contextmanager
    def reading(caller: Principal, what: Hashable) -> Iterator[None]:
        with readers.reading(caller.api_key_id, what), services.credentials.while_valid(caller):
            yield

    return reading


Exporting: TypeAlias = Annotated[OpenReading, Depends(exporting)]


async def reading(request: Request, opened: Exporting) -> OpenReading:
    """The same for a run; raises `TooManyReaders` before the run is started."""
    limits_of(request).readers.require_room((await principal_of(request)).api_key_id)
    return opened


Reading: TypeAlias = Annotated[OpenReading, Depends(reading)]
RunIdParam: TypeAlias = Annotated[str, Path(alias="runId")]
GraphIdParam: TypeAlias = Annotated[
    str, Path(alias="graphId", json_schema_extra={"pattern": GRAPH_ID_PATTERN, "maxLength": 200})
]


def run_key(caller: Principal, run_id: str) -> RunKey:
    """The caller's run of this id; raises `RunNotFound` for what can be no id."""
    # What can be no id is not looked for: PostgreSQL would refuse some of it.
    if not re.fullmatch(RUN_ID_PATTERN, run_id):
        raise RunNotFound
    return RunKey(caller.account_id, RunId(run_id))


def request_id(request: Request) -> str:
    """The id of this request, given or made."""
    found: str = request.scope["state"][REQUEST_ID]
    return found


RequestId: TypeAlias = Annotated[str, Depends(request_id)]


def idempotency_key(
    idempotency_key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            description="The same key does the same thing once; stands in for `runId`.",
            json_schema_extra={"pattern": "^[!-~]([ -~]{0,253}[!-~])?$"},
        ),
    ] = None,
) -> str | None:
    """The `Idempotency-Key`; raises `Invalid` for one that is empty, too long or not plain text."""
    if idempotency_key is None:
        return None
    plain = idempotency_key.isascii() and idempotency_key.isprintable()
    if not (plain and 0 < len(idempotency_key) <= _MAX_KEY_CHARS):
        raise Invalid.field("Idempotency-Key", f"must be 1 to {_MAX_KEY_CHARS} printable characters")
    return idempotency_key


IdempotencyKey: TypeAlias = Annotated[str | None, Depends(idempotency_key)]


def last_event_id(
    last_event_id: Annotated[
        str | None,
        Header(
            alias="Last-Event-ID",
            description="Resume after this event; wins over `after`.",
            json_schema_extra={"pattern": "^[0-9]{0,9}$"},
        ),
    ] = None,
) -> int | None:
    """The position a reconnecting reader has got to; raises `Invalid` for what is no position."""
    if last_event_id is None or last_event_id == "":
        return None
    if not (last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 10):  # noqa: PLR2004
        raise Invalid.field("Last-Event-ID", "must be the number of an event")
    return int(last_event_id)


LastEventId: TypeAlias = Annotated[int | None, Depends(last_event_id)]
