"""QueuedRuns: commands to runs that no process executes yet."""

from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from app.db import Database
from app.events import ClientEvent, Interrupted, Queued, StopKind, StopState
from app.executors.port import ABORTED, FIRST_ATTEMPT
from app.ids import RunKey
from app.runs.closing import RunCloser, RunEnd
from app.runs.dispatch.repository import lock_queued_run
from app.runs.records import RunRecord
from app.runs.repository import store_interruption

log = structlog.get_logger(__name__)

_STATES: tuple[StopState, ...] = ("requested", "acknowledged", "stopped")


@dataclass(frozen=True, slots=True)
class QueuedRuns:
    """Works on their rows: a worker that claims one meanwhile waits, or has been faster."""

    database: Database
    closer: RunCloser

    async def stop(self, run: RunKey, kind: StopKind) -> bool:
        """End a queued run; False if it is not queued any more."""
        async with self.database.transaction() as tx:
            record = await lock_queued_run(tx, run)
            if record is None:
                return False
            end = RunEnd(record, ABORTED, attempt=record.attempt, events=_events(record, kind))
            state = {"kind": kind, "state": _STATES[-1], "at": datetime.now(UTC).isoformat()}
            await store_interruption(tx, run, state, attempt=record.attempt)
            await self.closer.store(tx, end)
        await self.closer.publish(end)
        log.info("run.ended", run_id=run.run_id, error=end.final.error, finish_reason=end.final.finish_reason)
        return True


def _events(run: RunRecord, kind: StopKind) -> list[ClientEvent]:
    """What a worker would have published."""
    stopped = [Interrupted(kind=kind, state=state) for state in _STATES]
    if run.attempt > FIRST_ATTEMPT or run.queued_position is None:
        return [*stopped]
    return [Queued(position=run.queued_position), *stopped]
