"""Reading: what metrics read from the database, seldom, and never for longer than a scrape may wait."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

import structlog

from app.errors import AppError
from app.platform.logs.context import start_detached
from app.platform.metrics.families import Family

log = structlog.get_logger(__name__)

TIMEOUT_S = 2.0
"""How long a scrape waits for a reading; Prometheus itself waits for ten seconds."""

_T = TypeVar("_T")


class Reading(Generic[_T]):
    """Reads a value at most every `max_age_s` and once at a time, however many scrapes want it.

    A reading that is late is not cancelled, which could take as long as the reading: it ends by the timeouts
    of the database, and no other is begun meanwhile.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[], Awaitable[_T]],
        describe: Callable[[_T], Iterable[Family]],
        *,
        max_age_s: float,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`name`: the value of the label `part` of `runtally_metrics_available`."""
        self.name = name
        self._read = read
        self._describe = describe
        self._max_age_s = max_age_s
        self._timeout_s = timeout_s
        self._value: _T | None = None
        self._problem: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._late_at = 0.0
        self._next_at = 0.0

    @property
    def is_available(self) -> bool:
        return self._value is not None

    async def refresh(self) -> None:
        """Return when the reading is recent enough, or cannot be had in time."""
        now = asyncio.get_running_loop().time()
        if self._task is None and now >= self._next_at:
            # The log lines of a reading are not those of the request that needed it first.
            self._task = start_detached(self._read_once())
            self._late_at = now + self._timeout_s
        if (task := self._task) is not None:
            done, _ = await asyncio.wait({task}, timeout=max(0.0, self._late_at - now))
            if not done:
                self._fail(f"no answer within {self._timeout_s:g} s")

    def families(self) -> Iterable[Family]:
        """The metrics of the latest reading; none if it failed."""
        return () if self._value is None else self._describe(self._value)

    async def aclose(self) -> None:
        """End the reading that is under way."""
        if (task := self._task) is not None:
            task.cancel()
            await asyncio.wait({task})

    async def _read_once(self) -> None:
        try:
            value = await self._read()
        except AppError as error:
            self._fail(error.detail)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not hide the other metrics
            self._fail(str(error) or type(error).__name__)
        else:
            if self._problem is not None:
                log.info("metrics.part_restored", part=self.name)
            self._value, self._problem = value, None
        finally:
            self._task = None
            self._next_at = asyncio.get_running_loop().time() + self._max_age_s

    def _fail(self, problem: str) -> None:
        if self._problem is None:
            log.warning("metrics.part_failed", part=self.name, reason=problem)
        self._value, self._problem = None, problem
