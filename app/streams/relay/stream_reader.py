"""Reading the streams of runs, several in one round trip."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from app.ids import RunKey
from app.streams.port import LogEntry
from app.streams.relay.batch import EventBatch
from app.streams.relay.connection import PREFIX, RelayConnection

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StreamPart:
    """What the relay holds of a run after a position: some entries, or all that there are."""

    entries: tuple[LogEntry, ...]
    last: int
    """The position of the last entry or marker that was read; if there is none after the position, the
    stream's last one."""
    is_over: bool
    """Whether nothing can follow."""
    more: bool
    """Whether the relay may hold more."""


def stream_name(run: RunKey, prefix: str = PREFIX) -> str:
    """The key of a run's stream, and the name of its channel."""
    return f"{prefix}events:{run.account_id}:{run.run_id}"


async def read_streams(relay: RelayConnection, positions: Sequence[tuple[RunKey, int]]) -> list[StreamPart]:
    """The first entries of each run after a position; raises `EventLogUnavailable`."""
    answer = await relay.read(
        [stream_name(run, relay.prefix) for run, _ in positions],
        [f"{position + 1}-0" for _, position in positions],
    )
    return [_part(run, position, rows) for (run, position), rows in zip(positions, answer, strict=True)]


async def read_whole_stream(relay: RelayConnection, run: RunKey, *, after: int = 0) -> StreamPart:
    """Everything that the relay holds of a run after a position; raises `EventLogUnavailable`."""
    entries: list[LogEntry] = []
    while True:
        [part] = await read_streams(relay, [(run, after)])
        entries += part.entries
        if not part.more:
            return StreamPart(tuple(entries), part.last, part.is_over, more=False)
        after = part.last


def _part(run: RunKey, after: int, rows: list[Any]) -> StreamPart:
    entries: list[LogEntry] = []
    last, is_over = 0, False
    for entry_id, payload, times in zip(rows[1::3], rows[2::3], rows[3::3], strict=True):
        position = int(entry_id.partition(b"-")[0])
        try:
            batch = EventBatch.decode(payload, times)
            found = batch.entries(after=after)
        except ValueError:
            # Without it, rather than reading it again and again.
            log.error("event_log.entry_refused", run_id=run.run_id, position=position)  # noqa: TRY400
        else:
            entries += found
            is_over = batch.is_end
        last = position
    return StreamPart(tuple(entries), last, is_over, more=bool(rows[0]))
