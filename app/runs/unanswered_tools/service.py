"""AbandonedRuns: cancels runs of chats that wait for a client tool while the next message waits for them."""

import asyncio

import structlog

from app.platform.background import first_of, forever
from app.platform.db import Database
from app.platform.logs.context import for_run
from app.runs.supervisor import ActiveRun, RunSupervisor
from app.runs.unanswered_tools.repository import abandoned_runs

log = structlog.get_logger(__name__)

_EVERY_S = 0.5


class AbandonedRuns:
    """Looks after the runs that this process executes; no query is made while none of them waits.

    Those that wait in no process are for the maintenance of the queue.

    The rows say what waits behind a run, its process knows whether it waits itself. So it does not matter
    which came first, the call or the message, nor which process has accepted the message.
    """

    def __init__(self, database: Database, supervisor: RunSupervisor) -> None:
        self._database = database
        self._supervisor = supervisor
        self._due = asyncio.Event()

    def look(self) -> None:
        """Look at once: a message of a chat was accepted here. Those of other processes are found in time."""
        self._due.set()

    async def watch(self) -> None:
        """Cancel such runs until cancelled."""
        await forever(self._step, 0, name="abandoned runs")

    async def _step(self) -> None:
        await first_of(self._due.wait(), timeout_s=_EVERY_S)
        self._due.clear()
        await self.check()

    async def check(self) -> None:
        """Cancel the runs that are abandoned now."""
        waiting = [run.plan.run for run in self._supervisor.active() if _is_waiting(run)]
        if not waiting:
            return
        async with self._database.read() as reader:
            abandoned = await abandoned_runs(reader, waiting)
        for key in abandoned:
            run = self._supervisor.find(key)
            # It may have been answered meanwhile.
            if run is not None and _is_waiting(run):
                with for_run(key):
                    log.info("run.abandoned")
                    await run.control.cancel()


def _is_waiting(run: ActiveRun) -> bool:
    return run.control.client_calls.calls.is_waiting and not run.control.stop.is_set()
