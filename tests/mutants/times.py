"""Faults of the times of events."""

from tests.mutants.event_log import RELAYED
from tests.mutants.mutant import Mutant

_ENDINGS = ("tests/integration/test_run_endings.py",)
_DISPATCHED = ("tests/integration/test_run_dispatcher.py",)

TIMES = (
    Mutant(
        "event time: a clock that jumps is followed",
        "app/platform/clock/event_times.py",
        "if self._start is None:",
        "if True:",
    ),
    Mutant(
        "event time: it goes back with a later attempt",
        "app/streams/run_buffer.py",
        "max(self._last_at, self._times.read() if at is None else at)",
        "self._times.read() if at is None else at",
        ("tests/unit/platform/clock/test_event_times.py",),
    ),
    Mutant(
        "event time: times of one batch are given to another",
        "app/streams/relay/batch.py",
        "if position != first or len(differences) != count",
        "if len(differences) != count",
    ),
    Mutant(
        "event time: the channel does not carry it",
        "app/streams/relay/run_feed.py",
        "            self._times = times\n",
        "            pass\n",
        RELAYED,
    ),
    Mutant(
        "event time: the stream does not carry it",
        "app/streams/relay/scripts.py",
        "rows[#rows + 1] = entry[2][6] or ''",
        "rows[#rows + 1] = ''",
        RELAYED,
    ),
    Mutant(
        "event time: the first event differs between row and log",
        "app/runs/worker.py",
        "Queued(position=plan.queued_position), at=at)",
        "Queued(position=plan.queued_position))",
        _DISPATCHED,
    ),
    Mutant(
        "event time: the end is published with another time than is stored",
        "app/runs/events/terminal.py",
        "at = milliseconds(ended_at) if entry.at == AT_END else entry.at",
        "at = milliseconds(ended_at) + 1",
    ),
    Mutant(
        "event time: a run ends before its last event",
        "app/runs/repository.py",
        "ended_at = greatest(now(), to_timestamp(CAST(:latest AS bigint) / 1000.0))",
        "ended_at = greatest(now(), to_timestamp(CAST(:latest AS bigint) * 0))",
        _ENDINGS,
    ),
)
