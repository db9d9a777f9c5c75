"""Which hours the periodic job compares next; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from app.billing.reconciliation.records import HOUR, Window, floor_to

REPEATED = timedelta(hours=24)
"""How much is compared again each time: reports and receipts may be late."""

HORIZON = timedelta(days=31)
"""How old an hour may be that is still caught up on."""

CATCH_UP = 3
"""Parts of a day at most that are caught up on in one pass."""


@dataclass(frozen=True, slots=True)
class History:
    """What was compared and tried so far."""

    compared: Sequence[Window] = ()
    """Successfully, and not too early; in order and without overlaps."""
    first_start: datetime | None = None
    """The earliest start of any attempt, also before the horizon."""
    failures: Mapping[datetime, datetime] = field(default_factory=dict)
    """When windows that begin at a time have failed last."""


def due(end: datetime, history: History) -> list[Window]:
    """The parts to compare now: the latest day if its last hour is new, then hours that never were compared.

    Without any attempt the job begins a day before `end`; from the earliest attempt on, no hour is left out.
    The pass ends with the first part that fails, so those that failed before come last.
    """
    gaps = _gaps(_span(end, history.first_start), history.compared)
    newest = [Window(end - REPEATED, end)] if gaps and gaps[-1].end == end else []
    earlier = [part for gap in gaps for part in _before(gap, newest).days()]
    parts = [*(part for window in newest for part in window.days()), *_chosen(earlier, history)]
    return sorted(parts, key=lambda part: _failed_at(part, history))


def _span(end: datetime, first_start: datetime | None) -> Window:
    start = end - REPEATED if first_start is None else min(first_start, end - REPEATED)
    return Window(max(floor_to(start, HOUR), end - HORIZON), end)


def _gaps(span: Window, compared: Sequence[Window]) -> list[Window]:
    """The whole hours of the span that contain a time that was not compared."""
    gaps, start = [], span.start
    for window in (*compared, Window(span.end, span.end)):
        upto = min(_ceil(window.start), span.end)
        if start < upto:
            gaps.append(Window(start, upto))
        start = max(start, floor_to(window.end, HOUR))
    return gaps


def _before(gap: Window, newest: Sequence[Window]) -> Window:
    return gap if not newest else Window(gap.start, min(gap.end, newest[0].start))


def _chosen(parts: Sequence[Window], history: History) -> list[Window]:
    """Those that have not failed, or not for the longest time; the oldest first."""
    return sorted(parts, key=lambda part: _failed_at(part, history))[:CATCH_UP]


def _failed_at(part: Window, history: History) -> datetime:
    return history.failures.get(part.start, datetime.min.replace(tzinfo=part.start.tzinfo))


def _ceil(moment: datetime) -> datetime:
    return floor_to(moment + HOUR - timedelta.resolution, HOUR)
