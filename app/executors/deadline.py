"""RunDeadline: waits until a run, or its current turn, must be stopped; knows no executor."""

import asyncio
from datetime import timedelta

from app.executors.control import RunControl
from app.executors.port import ABORTED, TIMEOUT, RunOutcome
from app.platform.background import first_of


class RunDeadline:
    """The end of one run: its timeout, which starts now, a cancellation, or a limit that was reached."""

    def __init__(self, control: RunControl, timeout: timedelta) -> None:
        self._control = control
        self._expires_at = asyncio.get_running_loop().time() + timeout.total_seconds()
        self._stopped = asyncio.Event()
        self.outcome: RunOutcome | None = None
        """Why the run was stopped, once it was; the first reason counts."""

    def stop(self, outcome: RunOutcome) -> None:
        """Stop the run for this reason."""
        self.outcome = self.outcome or outcome
        self._stopped.set()

    async def next_stop(self) -> RunOutcome | None:
        """Wait until the run must end; None when only its current turn must.

        The timeout counts once it has passed, even if no caller was waiting here then.
        """
        control = self._control
        first = await first_of(
            self._stopped.wait(),
            control.stop.wait(),
            control.stop_turn.wait(),
            timeout_s=max(0, self._expires_at - asyncio.get_running_loop().time()),
        )
        if first is not None and not self._stopped.is_set() and not control.stop.is_set():
            return None
        self.stop(TIMEOUT if first is None else ABORTED)
        return self.outcome
