"""Is the server alive, and can it work?"""

from fastapi import APIRouter

from app.errors import Unavailable
from app.http.dependencies import ServicesDep
from app.http.schemas import Health

router = APIRouter(tags=["health"])

RETRY_AFTER_S = 5


@router.get("/healthz", summary="Is the process alive?")
async def alive() -> Health:
    """Answer as long as there is a process."""
    return Health(status="ok")


@router.get("/readyz", summary="Can it take runs?")
async def ready(services: ServicesDep) -> Health:
    """Answer 503 naming the part that is away."""
    for part, ping in (("database", services.database.ping), ("event log", services.log.ping)):
        try:
            await ping()
        except Unavailable as error:
            message = f"The {part} is not available."
            raise Unavailable(message, retry_after_s=RETRY_AFTER_S) from error
    return Health(status="ok")
