"""DelegatedRuns: starts runs from stored requests, for keys whose holders do not wait for them."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from app.errors import Unavailable
from app.ids import ApiKeyId, RunKey
from app.platform.server.memory import MemoryCeiling
from app.requests.principal import Principal
from app.runs.commands.service import RunNotFound
from app.runs.deletion.service import RunDeleted
from app.runs.intake.readiness import IntakeReadiness
from app.runs.managed.deployed import begin_session
from app.runs.requests.codec import RequestCodec
from app.runs.requests.posted import RunIdTaken
from app.runs.service import RunService

_LARGE_BYTES = 262_144
_COPIES_WHILE_PARSING = 4
"""Memory used for a large request, as a multiple of its size."""


@dataclass(frozen=True, slots=True)
class StoredOrder:
    """A run to be started."""

    run: RunKey
    """Its id follows from what has ordered it, so that starts by several processes are one run."""
    api_key_id: ApiKeyId
    request_id: str
    bytes: int
    """About the size of its request."""
    read: Callable[[], Awaitable[str | None]]
    """Reads its request as JSON; None if it is deleted."""
    deployment_id: str | None = None
    """Its run begins a session of this deployment."""


@dataclass(frozen=True, slots=True)
class DelegatedRuns:
    """Schedules and batches start their runs with it."""

    runs: RunService
    intake: IntakeReadiness
    codec: RequestCodec
    memory: MemoryCeiling
    find_principal: Callable[[ApiKeyId], Awaitable[Principal]]
    """Raises `Unauthenticated` for a revoked key."""

    def is_accepting(self) -> bool:
        """Whether this process accepts runs; otherwise it leaves them to others."""
        try:
            self.intake.require_open()
        except Unavailable:
            return False
        return True

    async def start(self, order: StoredOrder) -> bool:
        """Start the run or join it, as `RunService.start` does; False if its request is deleted."""
        owner = await self.find_principal(order.api_key_id)
        owner.require("runs:write")
        if order.bytes > _LARGE_BYTES:
            self.memory.require_room(_COPIES_WHILE_PARSING * order.bytes)
        if (text := await order.read()) is None:
            return False
        request = await self.codec.decode(text)
        named = request.model_copy(update={"run_id": order.run.run_id})
        origin = None
        if order.deployment_id is not None:
            named, origin = begin_session(named, owner.api_key_id, order.deployment_id)
        # It was started by an earlier attempt, perhaps with the request that there was then.
        with suppress(RunIdTaken, RunDeleted):
            await self.runs.start(owner, named, origin=origin, request_id=order.request_id)
        return True

    async def exists(self, run: RunKey) -> bool:
        try:
            await self.runs.get(run)
        except RunNotFound:
            return False
        return True
