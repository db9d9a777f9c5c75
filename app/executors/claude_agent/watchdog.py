"""Stops the CLI: when somebody wants it to, time is up or a budget is used."""

import asyncio

import structlog

from app.executors.claude_agent.process.cli_process import CliProcess
from app.executors.claude_agent.sandbox.confinement import RunningSandbox
from app.executors.port import ABORTED, BUDGET, INTERNAL, TIMEOUT, RunContext, RunOutcome
from app.gateway.channel import Channel

log = structlog.get_logger(__name__)

_LOOK_EVERY_S = 0.1


class Watchdog:
    """Watches over one run."""

    def __init__(self, context: RunContext) -> None:
        self._control = context.control
        self._timeout_s = context.timeout.total_seconds()
        self._process: CliProcess | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._spent = asyncio.Event()
        self.stopped: RunOutcome | None = None
        """Why the CLI was stopped, once it was."""

    def watch(self, process: CliProcess, confinement: RunningSandbox | None = None) -> None:
        """Begin."""
        self._process = process
        self._tasks = [asyncio.create_task(self._watch(process))]
        if confinement is not None:
            self._tasks.append(asyncio.create_task(self._limit(confinement)))

    def check(self, lane: Channel) -> None:
        """Stop after the message that reached a budget."""
        if lane.budget_used and not self._spent.is_set():
            self._spend()

    def end(self) -> None:
        """The run is over: nothing of it may go on."""
        for task in self._tasks:
            task.cancel()
        if self._process is not None:
            self._process.kill()

    def _spend(self) -> None:
        self.stopped = self.stopped or BUDGET
        self._spent.set()

    async def _limit(self, confinement: RunningSandbox) -> None:
        """Stop an agent whose commands together use more than they may."""
        try:
            while (limit := await asyncio.to_thread(confinement.excess)) is None:
                await asyncio.sleep(_LOOK_EVERY_S)
            log.warning("the commands of a run exceed a limit of its workspace", limit=limit)
        except OSError as error:
            log.error("the commands of a run cannot be watched", reason=error.strerror)  # noqa: TRY400
            self.stopped = self.stopped or INTERNAL
        self._spend()
        if self._process is not None:
            # At once: it may be multiplying.
            self._process.kill()

    async def _watch(self, process: CliProcess) -> None:
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        while (reason := await self._reason(deadline)) is None:
            if not process.has_more_to_do:
                # Without another message the turn is the run.
                reason = ABORTED
                break
            await asyncio.gather(process.interrupt(), self._control.acknowledge())
            await self._control.stopped()
        self.stopped = self.stopped or reason
        await asyncio.gather(process.stop(), self._control.acknowledge())

    async def _reason(self, deadline: float) -> RunOutcome | None:
        """Why the run must end now; None when only its turn must."""
        reasons = {
            asyncio.create_task(self._control.stop.wait()): ABORTED,
            asyncio.create_task(self._spent.wait()): BUDGET,
            asyncio.create_task(self._control.stop_turn.wait()): None,
        }
        try:
            left_s = max(0, deadline - asyncio.get_running_loop().time())
            done, _ = await asyncio.wait(reasons, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in reasons:
                task.cancel()
        endings = [reasons[task] for task in done]
        return next((ending for ending in endings if ending), None) if endings else TIMEOUT
