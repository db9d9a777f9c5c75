"""StartAhead: starts CLI processes before there are runs for them, while processors are idle."""

import asyncio
from collections import deque
from collections.abc import Callable

from app.executors.claude_agent.launching.pool import CliPool
from app.executors.claude_agent.launching.started_cli import LaunchSpec
from app.executors.port import RunPlan
from app.platform.logs.context import start_detached

INTERVAL_S = 0.1
"""Between two checks; over this long the use of processors is measured."""

_REMEMBERED_SCHEMAS = 64


class StartAhead:
    """Starts one process after the other for `pool`, as long as `is_idle`."""

    def __init__(self, pool: CliPool, is_idle: Callable[[], bool], *, interval_s: float = INTERVAL_S) -> None:
        """`is_idle`: whether another process could start now and take time from no run.

        It is called before the first pause, too, and may measure what happens between two calls.
        """
        self._pool = pool
        self._is_idle = is_idle
        self._interval_s = interval_s
        self._wanted: deque[tuple[LaunchSpec, RunPlan]] = deque(maxlen=max(1, pool.most_ready))
        self._schemas: deque[LaunchSpec] = deque(maxlen=_REMEMBERED_SCHEMAS)
        self._starting: asyncio.Task[None] | None = None
        self._closed = False

    def want(self, spec: LaunchSpec, plan: RunPlan) -> None:
        """Start another process with this spec when there is time; the latest wishes count.

        One of a schema is started once the schema was used twice: most are not used again.
        """
        if self._closed or not self._is_expected(spec):
            return
        self._wanted.append((spec, plan))
        if self._starting is None or self._starting.done():
            self._starting = start_detached(self._start_wanted())

    async def aclose(self) -> None:
        """Start no more."""
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})

    def _is_expected(self, spec: LaunchSpec) -> bool:
        if spec.answer is None or spec in self._schemas:
            return True
        self._schemas.append(spec)
        return False

    async def _start_wanted(self) -> None:
        self._is_idle()
        while self._wanted:
            await asyncio.sleep(self._interval_s)
            if self._is_idle() and not self._pool.is_starting:
                self._pool.refill(*self._wanted.popleft())
