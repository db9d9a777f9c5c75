"""Which differences between minutes cancel each other, and which remain; pure.

The provider counts a message in the bucket of a moment that is not exactly ours: its minute may be the one
before or after. Such differences add up to nothing over neighbouring minutes. What remains is located
as narrowly as possible.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from app.billing.reconciliation import records

Moment = Literal["began", "ended"]
"""The moment of a message that the provider's buckets follow."""

Series = Mapping[datetime, records.Counts]
"""Differences by minute, reported minus recorded; only those that are not zero."""

REACH = timedelta(minutes=10)
"""How far apart the two sides may put a message: about as long as a message takes at most."""

FEW = 20
"""Differing minutes in a row of which one may still be found that explains them."""

LONGEST_RUN = timedelta(hours=1)
"""Differences further apart are never the same messages, even if there is one in every minute between."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What differs in a minute, or in a span of minutes."""

    start: datetime
    end: datetime
    """The start of its last minute."""
    counts: records.Counts
    is_dense: bool = False
    """Too many minutes differ to locate anything: messages are under way at each of their borders, and those
    at the first and the last border are part of the counts."""


@dataclass(frozen=True, slots=True)
class Aligned:
    """The differences of one series."""

    shifted: Sequence[Entry]
    """Minutes whose differences cancel each other; `counts` is what moved."""
    left: Sequence[Entry]
    """What remains, each in its own cluster of minutes."""


def differences(
    reported: Sequence[records.ReportedUsage], recorded: Sequence[records.RecordedUsage], *, moment: Moment
) -> dict[records.Dimensions, dict[datetime, records.Counts]]:
    """What differs, by dimensions and minute."""
    sums: dict[records.Dimensions, dict[datetime, records.Counts]] = defaultdict(
        lambda: defaultdict(lambda: records.NOTHING)
    )
    for row in reported:
        sums[row.dimensions][row.at] = records.plus(sums[row.dimensions][row.at], row.counts)
    for receipt in recorded:
        if not receipt.refused:
            minutes, at = sums[receipt.dimensions], getattr(receipt, moment)
            minutes[at] = records.minus(minutes[at], receipt.counts)
    found = {
        key: {at: counts for at, counts in minutes.items() if counts != records.NOTHING}
        for key, minutes in sums.items()
    }
    return {key: minutes for key, minutes in found.items() if minutes}


def best_moment(
    reported: Sequence[records.ReportedUsage], recorded: Sequence[records.RecordedUsage]
) -> Moment:
    """The moment that the provider's buckets seem to follow: the one with fewer differences."""

    def differing(moment: Moment) -> int:
        return sum(map(len, differences(reported, recorded, moment=moment).values()))

    return "ended" if differing("ended") < differing("began") else "began"


def align(series: Series) -> Aligned:
    """Cancel what neighbouring minutes have in common."""
    shifted: list[Entry] = []
    left: list[Entry] = []
    for cluster in _clusters([Entry(at, at, series[at]) for at in sorted(series)]):
        remaining = _without_zero_sums(_without_pairs(cluster, shifted), shifted)
        # Again: what has cancelled no longer connects what remains.
        for rest in _clusters(remaining):
            left += _located(rest, shifted)
    return Aligned(shifted, left)


def _clusters(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Entries that may be the same messages, in the order of time."""
    clusters: list[list[Entry]] = []
    for entry in entries:
        if clusters and entry.start - clusters[-1][-1].end <= REACH:
            clusters[-1].append(entry)
        else:
            clusters.append([entry])
    return clusters


def _without_pairs(cluster: list[Entry], shifted: list[Entry]) -> list[Entry]:
    """Without pairs of minutes that are each other's opposite."""
    open_: list[Entry] = []
    for entry in cluster:
        opposite = records.minus(records.NOTHING, entry.counts)
        match = next(
            (each for each in open_ if each.counts == opposite and entry.start - each.start <= REACH), None
        )
        if match is None:
            open_.append(entry)
        else:
            open_.remove(match)
            shifted.append(Entry(match.start, entry.end, _positive(entry.counts)))
    return open_


def _without_zero_sums(entries: list[Entry], shifted: list[Entry]) -> list[Entry]:
    """Without runs of consecutive minutes that add up to nothing."""
    left: list[Entry] = []
    sums = [records.NOTHING]
    """The sum before each entry of `left`, and after the last."""
    for entry in entries:
        after = records.plus(sums[-1], entry.counts)
        first = next((index for index, each in enumerate(sums) if each == after), None)
        if first is not None and entry.start - [*left, entry][first].start <= LONGEST_RUN:
            run = [*left[first:], entry]
            shifted.append(_span(run, _positive(run[0].counts)))
            del left[first:], sums[first + 1 :]
        else:
            left.append(entry)
            sums.append(after)
    return left


def _located(entries: list[Entry], shifted: list[Entry]) -> list[Entry]:
    """What remains of a cluster: in the one minute that it equals, else in all of them."""
    rest = records.total([each.counts for each in entries])
    if len(entries) > FEW:
        return [replace(_span(entries, rest), is_dense=True)]
    if rest == records.NOTHING:
        # Opposite differences that are too far apart to be the same messages.
        return entries
    exact = next((each for each in entries if each.counts == rest), None)
    if exact is None:
        return [_span(entries, rest)]
    others = [each for each in entries if each is not exact]
    if others:
        shifted.append(_span(others, _positive(others[0].counts)))
    return [exact]


def _span(entries: Sequence[Entry], counts: records.Counts) -> Entry:
    return Entry(min(each.start for each in entries), max(each.end for each in entries), counts)


def _positive(counts: records.Counts) -> records.Counts:
    return counts if sum(counts) > 0 else records.minus(records.NOTHING, counts)


def end_of(entry: Entry) -> datetime:
    """The exclusive end of an entry."""
    return entry.end + records.MINUTE
