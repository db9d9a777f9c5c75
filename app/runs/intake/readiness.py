"""IntakeReadiness: whether this process accepts runs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from app.errors import Unavailable
from app.runs.dispatch.limits import RETRY_AFTER_S


class ShuttingDown(Unavailable):
    """This server is shutting down; try again later."""

    code = "shutting_down"


@dataclass(slots=True)
class IntakeReadiness:
    """Open as long as its host has what runs need, and the process is not about to stop."""

    require_ready: Callable[[], None]
    """Raises while no run may start."""
    require_sandbox: Callable[[], Awaitable[None]]
    """Raises where agents with native tools cannot be confined."""
    _is_closed: bool = field(default=False, init=False)

    def close(self) -> None:
        self._is_closed = True

    def require_open(self) -> None:
        """Raise `ShuttingDown`, or like `require_ready`, while no run is accepted."""
        if self._is_closed:
            raise ShuttingDown(retry_after_s=RETRY_AFTER_S)
        self.require_ready()

    async def ping(self) -> None:
        """The same, for probes."""
        self.require_open()
