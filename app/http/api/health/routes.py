"""Health and readiness of the server."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal, TypeAlias

import anyio
from fastapi import APIRouter, Depends, Request

from app import __version__
from app.bootstrap.services import Services
from app.errors import Unavailable
from app.http.admission.checks import CheckedRoute
from app.http.api.health.schemas import Liveness, Readiness
from app.http.dependencies import ServicesDep
from app.platform.concurrency.shared_result import SharedResult

router = APIRouter(route_class=CheckedRoute, tags=["health"])

MAX_AGE_S = 0.25
"""Readiness results are shared for this long: anybody may request them, as often as they like."""

_RELAY = "relay"
"""Without it runs continue; readers of other processes wait."""

_DISPATCHER = "dispatcher"
"""Without it runs are accepted, and wait."""

_REPORTED = {_RELAY, _DISPATCHER}
"""All servers would become unready at once, and each can do most of its work."""

_DEGRADED = ("unusable", "refusing", "delayed", "refused", "damaged", "rewritten", "failing", "unavailable")
"""What a field says of a part that does not do its work."""

PING_TIMEOUT_S = 2.0
"""A part that takes longer to respond counts as unavailable."""


async def _readiness(request: Request) -> SharedResult[dict[str, str]]:
    found: SharedResult[dict[str, str]] = request.app.state.readiness
    return found


ReadinessDep: TypeAlias = Annotated[SharedResult[dict[str, str]], Depends(_readiness)]


@router.get("/healthz", summary="Is the process alive?")
async def alive() -> Liveness:
    """Respond as long as the process runs."""
    return Liveness(status="ok", version=__version__)


@router.get("/readyz", summary="Can it take runs?")
async def ready(services: ServicesDep, readiness: ReadinessDep) -> Readiness:
    """Respond with 503 naming the unavailable parts.

    A model provider that rejects our key is reported and is no reason for 503: receipts, events and
    conversations still work, and all replicas would become unready at once. Receipts that are late or
    refused, damaged files of the journal, a relay, a Temporal or a replica of the database that does not
    respond, and a database of which some statements fail or no notification arrives are reported in the
    same way: the status is `degraded`.
    """
    found = await readiness.get()
    if unavailable := [part for part in found if part not in _REPORTED]:
        raise Unavailable(f"Not available: {', '.join(unavailable)}.")
    state = Readiness(
        status="ok",
        provider=_provider_state(services),
        refusals=sorted(set(services.refusals.values())),
        receipts=services.delivery.state,
        chain=services.chain.state,
        database="failing" if services.database.is_failing else "ok",
        read_database="ok" if services.reading.problem is None else "unavailable",
        notifications=services.database.notifications.state,
        relay="unavailable" if _RELAY in found else "ok",
        relay_problem=found.get(_RELAY),
        dispatcher="unavailable" if _DISPATCHER in found else "ok",
    )
    is_degraded = any(value in _DEGRADED for value in state.model_dump().values())
    return state.model_copy(update={"status": "degraded"}) if is_degraded else state


def _provider_state(services: Services) -> Literal["ok", "refusing", "unusable", "unknown"]:
    readiness = services.readiness
    if readiness is None or not readiness.checked:
        return "refusing" if services.refusals else "unknown"
    if readiness.problem is not None:
        return "unusable"
    return "refusing" if services.refusals else "ok"


async def unavailable_parts(services: Services) -> dict[str, str]:
    """The names of the server's parts that cannot work now, and why."""
    parts = {
        "database": services.database.ping,
        _RELAY: services.log.ping,
        _DISPATCHER: services.dispatcher.ping,
        "intake of runs": services.intake.ping,
        "memory": services.memory.ping,
    }
    problems = {part: await _problem(ping) for part, ping in parts.items()}
    return {part: problem for part, problem in problems.items() if problem is not None}


async def _problem(ping: Callable[[], Awaitable[None]]) -> str | None:
    try:
        with anyio.fail_after(PING_TIMEOUT_S):
            await ping()
    except Unavailable as error:
        return error.detail
    except TimeoutError:
        return "it does not respond in time"
    return None
