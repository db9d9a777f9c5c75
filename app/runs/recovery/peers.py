"""Peers: whether other server processes still execute their runs."""

from typing import Any, Protocol
from uuid import UUID

from app.errors import AppError
from app.platform.clock.lease import Lease
from app.runs.events.publisher import LEASE_WAIT_S
from app.streams.process_channel import ProcessChannel, ProcessGone

_KIND = "is_alive"
_ANSWER_S = 2.0


class Peers(Protocol):
    """The other processes that use the same database."""

    async def may_be_alive(self, process_id: UUID) -> bool:
        """Whether a process executes its runs; also True if that cannot be found out."""
        ...


class ProcessPeers:
    """Sends a request to the process: one that is gone or stands still does not answer."""

    def __init__(self, channel: ProcessChannel, lease: Lease) -> None:
        """Answers the requests of other processes as well."""
        self._channel = channel
        self._lease = lease
        # A process that is busy is not dead.
        channel.serve({_KIND: self._answer}, urgent=True)

    async def may_be_alive(self, process_id: UUID) -> bool:
        try:
            answer = await self._channel.request(process_id, _KIND, {}, timeout_s=_ANSWER_S)
        except (ProcessGone, TimeoutError):
            return False
        except AppError:
            return True
        return answer.get("isAlive") is not False

    async def _answer(self, _payload: dict[str, Any]) -> dict[str, Any]:
        # For longer no event waits for the lease: the runs that had something to publish are over.
        return {"isAlive": self._lease.overdue_s < LEASE_WAIT_S}
