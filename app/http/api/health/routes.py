"""Is the server alive, and can it work?"""

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias

import anyio
from fastapi import APIRouter, Depends, Request

from app.bootstrap.services import Services
from app.errors import Unavailable
from app.http.admission.checks import AdmittedRoute
from app.http.dependencies import ServicesDep
from app.http.schemas import Health, Readiness
from app.http.shared_answer import SharedResult

router = APIRouter(route_class=AdmittedRoute, tags=["health"])

KEPT_S = 0.25
"""How old what was found may be: anybody may ask, and as often as they like."""

PATIENCE_S = 2.0
"""A part that takes longer to say that it is there is not."""


def _readiness(request: Request) -> SharedResult[list[str]]:
    found: SharedResult[list[str]] = request.app.state.readiness
    return found


ReadinessDep: TypeAlias = Annotated[SharedResult[list[str]], Depends(_readiness)]


@router.get("/healthz", summary="Is the process alive?")
async def alive() -> Health:
    """Answer as long as there is a process."""
    return Health(status="ok")


@router.get("/readyz", summary="Can it take runs?")
async def ready(services: ServicesDep, readiness: ReadinessDep) -> Readiness:
    """Answer 503 naming the parts that are away.

    A provider that refuses us is told and no reason: receipts, events and sessions are served all
    the same, and it would take every replica away at once.
    """
    away = await readiness.get()
    if away:
        message = f"Not available: {', '.join(away)}."
        raise Unavailable(message)
    if not services.access.asked:
        return Readiness(status="ok", provider="unknown")
    return Readiness(status="ok", provider="ok" if services.access.problem is None else "unusable")


async def parts_away(services: Services) -> list[str]:
    """What of the server cannot do its work now."""
    parts = {
        "database": services.database.ping,
        "event log": services.log.ping,
        "intake of runs": services.runs.ping,
        "memory": services.memory.ping,
    }
    return [part for part, ping in parts.items() if not await _answers(ping)]


async def _answers(ping: Callable[[], Awaitable[None]]) -> bool:
    try:
        with anyio.fail_after(PATIENCE_S):
            await ping()
    except (Unavailable, TimeoutError):
        return False
    return True
