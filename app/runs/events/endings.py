"""RunEndings: notices that followed runs of other processes have ended without publishing their end."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.ids import RunKey
from app.platform.background import forever
from app.platform.db import Database
from app.runs.repository import ended_runs
from app.streams.port import EventLog

CHECK_S = 1.0
"""How often the database is queried, once for all followed runs."""

_RUNS_PER_QUERY = 5000


class RunEndings:
    """Ends the readers of such runs: the rest is stored."""

    def __init__(
        self, database: Database, event_log: EventLog, *, is_active: Callable[[RunKey], bool]
    ) -> None:
        """`is_active` returns whether this process executes a run."""
        self._database = database
        self._log = event_log
        self._is_active = is_active
        self._readers: Counter[RunKey] = Counter()

    @contextmanager
    def watching(self, run: RunKey) -> Iterator[None]:
        """End the reader of a run that reads the event log meanwhile."""
        self._readers[run] += 1
        try:
            yield
        finally:
            self._readers[run] -= 1
            if not self._readers[run]:
                del self._readers[run]

    async def watch(self) -> None:
        """Check the followed runs until cancelled."""
        await forever(self.check, CHECK_S, name="ends of followed runs")

    async def check(self) -> None:
        """End the readers of runs of other processes that have ended."""
        followed = [run for run in self._readers if not self._is_active(run)]
        for start in range(0, len(followed), _RUNS_PER_QUERY):
            async with self._database.read() as reader:
                ended = await ended_runs(reader, followed[start : start + _RUNS_PER_QUERY])
            for run in ended:
                self._log.stop_following(run)
