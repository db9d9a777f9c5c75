"""Compares the provider's report with receipts: each difference gets a place, a cause, an amount; pure."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from app.billing.prices.price_list import rounded
from app.billing.reconciliation.comparing.alignment import (
    REACH,
    Entry,
    Moment,
    align,
    best_moment,
    differences,
    end_of,
)
from app.billing.reconciliation.comparing.causes import Evidence, IndexedBooks, find_cause
from app.billing.reconciliation.comparing.unit_prices import UnitPrices
from app.billing.reconciliation.records import (
    HOUR,
    MINUTE,
    NOTHING,
    Books,
    Counts,
    Difference,
    Dimensions,
    RecordedUsage,
    Window,
    floor_to,
    minus,
    plus,
    total,
)
from app.ids import AccountId

_CHARGE_TOLERANCE = Decimal("0.0000000001")
"""Per receipt: a charge is rounded to ten decimals."""


def compare(books: Books, prices: UnitPrices) -> list[Difference]:
    """Every difference of the window, in the order of time."""
    own = books.own_reported
    moment = best_moment(own, books.recorded)
    left: list[tuple[Dimensions, Entry]] = []
    found: list[Difference] = []
    for dimensions, series in differences(own, books.recorded, moment=moment).items():
        aligned = align(series)
        found += [_shifted(dimensions, entry) for entry in aligned.shifted]
        for entry in aligned.left:
            if entry.is_dense and _is_under_way(books, dimensions, entry, moment=moment):
                found.append(_shifted(dimensions, entry))
            else:
                left.append((dimensions, _clipped(entry, books.window)))
    pairs, rest = _relabelled(left)
    found += [_other_dimension(reported, recorded, prices) for reported, recorded in pairs]
    indexed = IndexedBooks(books)
    for dimensions, entry in rest:
        evidence = Evidence.of(indexed, dimensions, entry)
        priced = prices.difference(dimensions, entry.counts, at=entry.start)
        found.append(
            Difference(
                starting_at=entry.start,
                ending_at=end_of(entry),
                dimensions=dimensions,
                cause=find_cause(entry.counts, evidence),
                counts=entry.counts,
                amount_usd=priced.amount_usd,
                lines=priced.lines,
                account_id=evidence.account_id,
                evidence=evidence.to_json(),
            )
        )
    found += [*_foreign(books, prices), *_charged(books, prices)]
    inside = [each for each in found if books.window.contains(each.starting_at)]
    return sorted(inside, key=lambda each: (each.starting_at, each.dimensions, each.cause))


def _is_under_way(books: Books, dimensions: Dimensions, entry: Entry, *, moment: Moment) -> bool:
    """Whether messages of its first and last minutes can explain a dense difference."""
    edges = {entry.start, entry.end}
    reported = [row.counts for row in books.own_reported if row.dimensions == dimensions and row.at in edges]
    recorded = [
        row.counts for row in books.recorded if row.dimensions == dimensions and getattr(row, moment) in edges
    ]
    most = total([*reported, *recorded])
    return all(abs(count) <= bound for count, bound in zip(entry.counts, most, strict=True))


def _clipped(entry: Entry, window: Window) -> Entry:
    """A dense difference belongs to every window that it overlaps."""
    if not entry.is_dense or entry.end < window.start or entry.start >= window.end:
        return entry
    return replace(entry, start=max(entry.start, window.start), end=min(entry.end, window.end - MINUTE))


def _shifted(dimensions: Dimensions, entry: Entry) -> Difference:
    return Difference(
        starting_at=entry.start,
        ending_at=end_of(entry),
        dimensions=dimensions,
        cause="shifted",
        counts=entry.counts,
        amount_usd=Decimal(0),
    )


_Placed = tuple[Dimensions, Entry]


def _relabelled(left: list[_Placed]) -> tuple[list[tuple[_Placed, _Placed]], list[_Placed]]:
    """Pairs of one model and opposite counts at the same time: both sides know the message."""
    pairs: list[tuple[_Placed, _Placed]] = []
    rest: list[_Placed] = []
    for placed in left:
        match = next((each for each in rest if _are_opposite(each, placed)), None)
        if match is None:
            rest.append(placed)
        else:
            rest.remove(match)
            ordered = (placed, match) if sum(placed[1].counts) > 0 else (match, placed)
            pairs.append(ordered)
    return pairs, rest


def _are_opposite(one: _Placed, other: _Placed) -> bool:
    (first, entry), (second, opposite) = one, other
    return (
        first.model == second.model
        and entry.counts == minus(NOTHING, opposite.counts)
        and abs(entry.start - opposite.start) <= REACH
    )


def _other_dimension(reported: _Placed, recorded: _Placed, prices: UnitPrices) -> Difference:
    (dimensions, entry), (ours, other) = reported, recorded
    theirs = prices.difference(dimensions, entry.counts, at=entry.start)
    charged = prices.difference(ours, other.counts, at=other.start)
    known = theirs.amount_usd is not None and charged.amount_usd is not None
    amount = theirs.amount_usd + charged.amount_usd if known else None  # type: ignore[operator]
    return Difference(
        starting_at=min(entry.start, other.start),
        ending_at=max(end_of(entry), end_of(other)),
        dimensions=dimensions,
        # Where the price does not depend on it, nothing is to be done.
        cause="shifted" if amount == 0 else "other_dimension",
        counts=NOTHING,
        amount_usd=amount,
        lines=[*theirs.lines, *charged.lines],
        evidence={"recorded_as": ours._asdict(), "reported_as": dimensions._asdict()},
    )


def _foreign(books: Books, prices: UnitPrices) -> Iterator[Difference]:
    """The usage of other programs' keys, by hour."""
    sums: dict[tuple[datetime, str | None, Dimensions], Counts] = defaultdict(lambda: NOTHING)
    for row in books.reported:
        if row.api_key_id not in books.own_keys and books.window.contains(row.at):
            key = max(floor_to(row.at, HOUR), books.window.start), row.api_key_id, row.dimensions
            sums[key] = plus(sums[key], row.counts)
    for (hour, key_id, dimensions), counts in sums.items():
        if counts != NOTHING:
            priced = prices.difference(dimensions, counts, at=hour)
            yield Difference(
                starting_at=hour,
                ending_at=floor_to(hour, HOUR) + HOUR,
                dimensions=dimensions,
                cause="foreign_key",
                counts=counts,
                amount_usd=priced.amount_usd,
                lines=priced.lines,
                api_key_id=key_id,
            )


def _charged(books: Books, prices: UnitPrices) -> Iterator[Difference]:
    """Receipts whose charge is not their counts at the present prices, by hour and account."""
    groups: dict[tuple[datetime, Dimensions], list[RecordedUsage]] = defaultdict(list)
    for each in books.recorded:
        if books.window.contains(each.began):
            groups[floor_to(each.began, HOUR), each.dimensions].append(each)
    for (hour, dimensions), receipts in groups.items():
        expected = [prices.cost_of_receipts(each) for each in receipts]
        known = [cost for cost in expected if cost is not None]
        if len(known) < len(expected):
            continue
        charged = sum((each.cost_usd for each in receipts), Decimal(0))
        amount = rounded(sum(known, Decimal(0)) - charged)
        unpriced = any(each.unpriced for each in receipts)
        number = sum(each.receipts for each in receipts)
        if abs(amount) > _CHARGE_TOLERANCE * max(1, number):
            yield Difference(
                starting_at=max(hour, books.window.start),
                ending_at=hour + HOUR,
                dimensions=dimensions,
                cause="unpriced" if unpriced else "charged_price",
                counts=NOTHING,
                amount_usd=amount,
                account_id=_only_account(receipts),
                evidence={"receipts": number, "charged_usd": f"{charged:f}"},
            )


def _only_account(receipts: Sequence[RecordedUsage]) -> AccountId | None:
    accounts = {each.account_id for each in receipts}
    return accounts.pop() if len(accounts) == 1 else None
