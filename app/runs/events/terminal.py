"""The last events of a run, and the end of its event log."""

from collections.abc import Sequence
from datetime import datetime

import structlog

from app.errors import AppError
from app.events import AssistantFinal, ClientEvent, Done, RunError
from app.ids import RunKey
from app.platform.clock.event_times import milliseconds
from app.requests.outcome import GraphFinal
from app.runs.records import AT_END, RunRecord
from app.streams.port import EventLog, LogEntry

POSITIONS_PER_ATTEMPT = 1_000_000
"""A later attempt starts at a multiple of this position: a reader of the earlier attempt continues with it
from wherever it was, also if it has received events that the event log has lost."""

LAST_POSITION = 999_999_999
"""Of the `done` of a run whose other events are gone: above each real one; the last that clients can name."""

log = structlog.get_logger(__name__)


def terminal_events(final: GraphFinal, *, has_content: bool = True) -> list[ClientEvent]:
    """The run's answer or error, and `done`; without the answer if its contents are deleted."""
    end: list[ClientEvent] = []
    if final.ok and has_content:
        end.append(AssistantFinal(content=final.content, structured_output=final.structured_output))
    if final.error is not None:
        end.append(RunError(error=final.error, budget=final.budget, resets_at=final.resets_at))
    done = Done(
        usage=final.usage,
        finish_reason=final.finish_reason,
        context_used=final.context_used,
        context_window=final.context_window,
        cached=final.cached,
    )
    return [*end, done]


def stored_end(run: RunRecord) -> list[LogEntry]:
    """The end of a run as its row has it, from the first position; empty if it has not ended."""
    if run.final is None:
        return []
    events = terminal_events(run.final, has_content=run.contents_deleted_at is None)
    return with_positions(events, after=0, at=time_of_end(run))


async def close_log(
    event_log: EventLog,
    run: RunKey,
    end: Sequence[LogEntry],
    *,
    ended_at: datetime,
    attempt: int | None = None,
) -> None:
    """Publish the end to the readers and delete the log; later readers use the stored events.

    `ended_at`: what the database has stored instead of `AT_END`.
    `attempt`: for a run of another process, which is written as this attempt from now on.
    """
    try:
        if attempt is not None:
            await event_log.resume(run, attempt=attempt, after=attempt * POSITIONS_PER_ATTEMPT)
        for entry in end:
            at = milliseconds(ended_at) if entry.at == AT_END else entry.at
            await event_log.append(run, entry.event, at=at)
        await event_log.delete(run)
    except AppError as error:
        log.error("run.end_not_published", run_id=run.run_id, reason=error.detail)  # noqa: TRY400


def last_position(entries: Sequence[LogEntry], *, attempt: int) -> int:
    """The position before the next event of this attempt."""
    return max(attempt * POSITIONS_PER_ATTEMPT, entries[-1].position if entries else 0)


def with_positions(events: Sequence[ClientEvent], *, after: int, at: int = AT_END) -> list[LogEntry]:
    """The events at the positions after this one."""
    return [LogEntry(position, event, at) for position, event in enumerate(events, start=after + 1)]


def time_of_first(run: RunRecord) -> int:
    """When a run was accepted, which is when its event `queued` was produced."""
    return milliseconds(run.created_at)


def time_of_end(run: RunRecord) -> int:
    """When a run ended, which is when its last events were produced."""
    return milliseconds(run.ended_at or run.created_at)
