"""Why a located difference exists, from what else is known of its minutes; pure."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from app.billing.reconciliation import records
from app.billing.reconciliation.comparing.alignment import REACH, Entry, end_of
from app.ids import AccountId

_OUTPUT = records.KINDS.index("output")
_SMALL = 256
"""Tokens that an estimate may be wrong by, however small it is."""


Row = TypeVar("Row")


class TimeIndex(Generic[Row]):
    """Rows by model, in the order of time: a day may have many rows and many differences."""

    def __init__(self, rows: Iterable[Row], key: Callable[[Row], tuple[str | None, datetime]]) -> None:
        """`key`: model and time of a row."""
        self._rows: dict[str | None, list[tuple[datetime, Row]]] = defaultdict(list)
        for row in rows:
            model, at = key(row)
            self._rows[model].append((at, row))
        for placed in self._rows.values():
            placed.sort(key=_time_of)

    def near(self, model: str | None, window: records.Window) -> list[Row]:
        placed = self._rows.get(model, [])
        first = bisect_left(placed, window.start, key=_time_of)
        last = bisect_left(placed, window.end, key=_time_of)
        return [row for _, row in placed[first:last]]


def _time_of(placed: tuple[datetime, object]) -> datetime:
    return placed[0]


class IndexedBooks:
    """Books whose rows are found by model and time."""

    def __init__(self, books: records.Books) -> None:
        self.profiles = books.profiles
        self.recorded = TimeIndex(books.recorded, lambda row: (row.dimensions.model, row.began))
        self.calls = TimeIndex(books.calls, lambda row: (row.model, row.at))
        self.all_calls = TimeIndex(books.calls, lambda row: (None, row.at))
        self.unbilled = TimeIndex(books.unbilled, lambda row: (row.model, row.at))
        own = [row for row in books.requests or () if row.api_key_id in books.own_keys]
        self.requests = None if books.requests is None else TimeIndex(own, lambda row: (row.model, row.at))


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a model in the minutes around a difference."""

    receipts: int
    requests: int | None
    """Requests that the provider reports; None if it does not report any."""
    calls: int | None
    """Calls that left through the gateway and were not refused; None if they were not counted then."""
    estimates: Sequence[records.RecordedUsage] = ()
    """Receipts whose numbers are estimates."""
    refused: Sequence[records.Counts] = ()
    """Messages that the provider refused, and that are not charged."""
    unbilled: Sequence[records.Counts] = ()
    account_id: AccountId | None = None
    """The account whose user profile has exactly this difference."""

    @classmethod
    def of(cls, books: "IndexedBooks", dimensions: records.Dimensions, entry: Entry) -> "Evidence":
        near = records.Window(entry.start, end_of(entry)).widened(REACH)
        model = dimensions.model
        receipts = books.recorded.near(model, near)
        calls = books.calls.near(model, near)
        are_counted = bool(books.all_calls.near(None, near)) or not receipts
        rows = None if books.requests is None else books.requests.near(model, near)
        return cls(
            receipts=sum(each.receipts for each in receipts if not each.refused),
            requests=None if rows is None else sum(row.requests for row in rows),
            calls=sum(each.sent - each.refused for each in calls) if are_counted else None,
            estimates=[each for each in receipts if _is_estimate_of(each, dimensions)],
            refused=[each.counts for each in receipts if each.refused],
            unbilled=[each.counts for each in books.unbilled.near(model, near)],
            account_id=_account(books.profiles, rows or (), receipts, counts=entry.counts),
        )

    @property
    def surplus(self) -> int | None:
        """How many requests the provider reports without a receipt."""
        return None if self.requests is None else self.requests - self.receipts - len(self.unbilled)

    def to_json(self) -> dict[str, Any]:
        """What an operator sees."""
        known = {"receipts": self.receipts, "requests": self.requests, "calls": self.calls}
        return {name: value for name, value in known.items() if value is not None}


def find_cause(counts: records.Counts, evidence: Evidence) -> records.Cause:
    """The cause of a difference of these counts, reported minus recorded."""
    return _explanation(counts, evidence) or _fault(counts, evidence)


def _explanation(counts: records.Counts, evidence: Evidence) -> records.Cause | None:
    if _is_sum_of(counts, evidence.refused):
        return "refused"
    if _is_sum_of(counts, evidence.unbilled):
        return "probe"
    return "estimated" if _is_estimate(counts, evidence) else None


def _fault(counts: records.Counts, evidence: Evidence) -> records.Cause:
    if max(counts) <= 0:
        return "not_reported"
    if min(counts) < 0 or evidence.surplus == 0:
        return "different_counts"
    if evidence.calls is None:
        return "no_receipt"
    return "lost_receipt" if evidence.calls > evidence.receipts else "unknown_caller"


def _is_sum_of(counts: records.Counts, known: Sequence[records.Counts]) -> bool:
    return counts in known or (len(known) > 1 and counts == records.total(known))


def _is_estimate(counts: records.Counts, evidence: Evidence) -> bool:
    """Whether estimated numbers explain the difference: their kinds, and not much more than themselves."""
    if not evidence.estimates:
        return False
    if not any(each.unanswered for each in evidence.estimates):
        others = [count for kind, count in enumerate(counts) if kind != _OUTPUT]
        if any(others):
            return False
    if evidence.surplus is not None:
        # With a receipt for each request, nothing is missing.
        return evidence.surplus <= 0
    estimated = sum(map(sum, (_estimated(each) for each in evidence.estimates)))
    return sum(map(abs, counts)) <= max(_SMALL, estimated)


def _estimated(receipts: records.RecordedUsage) -> records.Counts:
    if receipts.unanswered:
        return receipts.counts
    return tuple(count if kind == _OUTPUT else 0 for kind, count in enumerate(receipts.counts))


def _is_estimate_of(receipts: records.RecordedUsage, dimensions: records.Dimensions) -> bool:
    # Of a prompt that was never answered, only the model is known.
    return receipts.unanswered or (receipts.estimated_output and receipts.dimensions == dimensions)


def _account(
    profiles: Mapping[str, AccountId],
    rows: Sequence[records.ReportedRequests],
    receipts: Sequence[records.RecordedUsage],
    *,
    counts: records.Counts,
) -> AccountId | None:
    found = []
    for profile, account_id in profiles.items():
        reported = records.total([row.counts for row in rows if row.profile_id == profile])
        recorded = records.total([each.counts for each in receipts if each.account_id == account_id])
        if records.minus(reported, recorded) == counts:
            found.append(account_id)
    return found[0] if len(found) == 1 else None
