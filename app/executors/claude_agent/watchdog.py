"""Watchdog: stops a run's CLI at the run's deadline, on request, or when a limit is exceeded."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from app.executors.claude_agent.process.cli_process import CliProcess
from app.executors.claude_agent.sandbox.port import Sandbox
from app.executors.deadline import RunDeadline
from app.executors.port import ABORTED, BUDGET, INTERNAL, RunContext, RunOutcome
from app.gateway.channel import Channel

log = structlog.get_logger(__name__)

_SANDBOX_CHECK_S = 0.1


class Watchdog:
    """Watches one run's process from its creation until `close`."""

    def __init__(
        self,
        context: RunContext,
        process: CliProcess,
        sandbox: Sandbox | None,
        *,
        leave: Callable[[], Awaitable[object]],
    ) -> None:
        """Starts the run's timeout; `leave` is awaited when the run is parked."""
        self._control = context.control
        self._process = process
        self._deadline = RunDeadline(context.control, context.plan.timeout)
        self._tasks = [asyncio.create_task(self._stop_in_time()), asyncio.create_task(self._park(leave))]
        if sandbox is not None:
            self._tasks.append(asyncio.create_task(self._enforce_limits(sandbox)))

    @property
    def outcome(self) -> RunOutcome | None:
        """Why the CLI was stopped, once it was."""
        return self._deadline.outcome

    def check_budget(self, channel: Channel) -> None:
        """Stop after the message that reached a budget."""
        if channel.budget_exhausted:
            self._deadline.stop(BUDGET)

    def close(self) -> None:
        """Stop watching, and kill a process that is still running."""
        for task in self._tasks:
            task.cancel()
        self._process.kill()

    async def _enforce_limits(self, sandbox: Sandbox) -> None:
        """Stop an agent whose commands together exceed a limit of its workspace."""
        try:
            while (limit := await asyncio.to_thread(sandbox.exceeded_limit)) is None:
                await asyncio.sleep(_SANDBOX_CHECK_S)
            log.warning("sandbox.limit_exceeded", limit=limit)
            self._deadline.stop(BUDGET)
        except OSError as error:
            log.error("sandbox.watch_failed", reason=error.strerror)  # noqa: TRY400
            self._deadline.stop(INTERNAL)
        # Without an interrupt first: the commands may be multiplying.
        self._process.kill()

    async def _park(self, leave: Callable[[], Awaitable[object]]) -> None:
        await self._control.parking.wait()
        await leave()

    async def _stop_in_time(self) -> None:
        while await self._deadline.next_stop() is None and self._process.run.pending.has_next_turn:
            await asyncio.gather(self._process.interrupt(), self._control.acknowledge())
            await self._control.mark_stopped()
        # An interrupt without another message to continue with ends the run.
        self._deadline.stop(ABORTED)
        await asyncio.gather(self._process.stop(), self._control.acknowledge())
