"""The last events of a run, and the end of its event log."""

from collections.abc import Sequence

import structlog

from app.errors import AppError
from app.events import ClientEvent, Done, RunError
from app.ids import RunKey
from app.requests import GraphFinal
from app.streams.port import EventLog, LogEntry

log = structlog.get_logger(__name__)


def terminal_events(final: GraphFinal) -> list[ClientEvent]:
    """The run's error, if any, and `done`."""
    done = Done(usage=final.usage, finish_reason=final.finish_reason)
    return [done] if final.error is None else [RunError(error=final.error), done]


async def close_log(event_log: EventLog, run: RunKey, terminal: Sequence[ClientEvent]) -> None:
    """Publish the end to the readers and delete the log; later readers use the stored events."""
    try:
        for event in terminal:
            await event_log.append(run, event)
        await event_log.delete(run)
    except AppError as error:
        log.error("run.end_not_published", run_id=run.run_id, reason=error.detail)  # noqa: TRY400


def last_position(entries: Sequence[LogEntry]) -> int:
    """The position of the last entry; 0 if there is none."""
    return entries[-1].position if entries else 0


def with_positions(events: Sequence[ClientEvent], *, after: int) -> list[LogEntry]:
    """The events at the positions after this one."""
    return [LogEntry(position, event) for position, event in enumerate(events, start=after + 1)]
