"""Encoding of a finished run's events as database rows: neighbouring text deltas share a row."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from app.events import CLIENT_EVENTS, ClientEvent, TextDelta, ThinkingDelta
from app.platform.clock.gaps import decode_gaps, encode_gaps
from app.runs.records import StoredEvents
from app.streams.event_json import to_json
from app.streams.port import LogEntry

DELTAS_PER_ROW = 1000
"""Limits the size of a row, so that a long text can be read in pieces."""


def encode_events(entries: Iterable[LogEntry]) -> list[StoredEvents]:
    """Encode entries, given in order and without gaps, as rows."""
    groups = (list(group) for _, group in groupby(entries, key=_group_key))
    return [
        _row(group[start : start + DELTAS_PER_ROW])
        for group in groups
        for start in range(0, len(group), DELTAS_PER_ROW)
    ]


def decode_events(rows: Iterable[StoredEvents]) -> list[LogEntry]:
    """The entries exactly as they were encoded, except that the database decides what `AT_END` is."""
    return [entry for row in rows for entry in _entries(row)]


def decode_joined(rows: Iterable[StoredEvents], *, apart: int) -> list[LogEntry]:
    """The same as `joined`, as far as texts share a row: they are not parsed one by one."""
    return [
        entry
        for row in rows
        for entry in _entries(row, is_joined=not row.position <= apart < row.last_position)
    ]


def joined(entries: Iterable[LogEntry], *, apart: int) -> list[LogEntry]:
    """These entries, with neighbouring texts of a message as one, at the place and time of the first.

    The last of them stays as it is, because the place before what follows counts; and no text up to the
    position `apart` is joined with one after it.
    """
    groups = groupby(entries, key=lambda entry: (entry.position > apart, *_group_key(entry)))
    return [entry for _, group in groups for entry in _joined(list(group))]


def _joined(group: Sequence[LogEntry]) -> Iterator[LogEntry]:
    if parts := group[:-1]:
        yield parts[0]._replace(event=_whole(parts))
    yield group[-1]


def _whole(group: Sequence[LogEntry]) -> ClientEvent:
    """Entries that may share a row as one event."""
    first = group[0].event
    deltas = [entry.event.delta for entry in group if isinstance(entry.event, TextDelta | ThinkingDelta)]
    return first if len(group) == 1 else first.model_copy(update={"delta": "".join(deltas)})


def _group_key(entry: LogEntry) -> tuple[object, ...]:
    """Equal for neighbouring entries that may share a row."""
    event = entry.event
    if isinstance(event, TextDelta | ThinkingDelta):
        return event.type, event.message_id, event.parent_tool_call_id, entry.at > 0
    return (entry.position,)


def _row(group: list[LogEntry]) -> StoredEvents:
    first, last = group[0], group[-1]
    data = json.loads(to_json(_whole(group)))
    if len(group) > 1:
        data["cuts"] = [
            len(entry.event.delta) for entry in group if isinstance(entry.event, TextDelta | ThinkingDelta)
        ]
    gaps = encode_gaps([entry.at for entry in group]) if len(group) > 1 and first.at else None
    return StoredEvents(first.position, last.position, data, first.at, gaps)


def _entries(row: StoredEvents, *, is_joined: bool = False) -> Iterator[LogEntry]:
    if "cuts" not in row.data:
        yield LogEntry(row.position, _event(row.data), row.at)
        return
    text, start = row.data["delta"], 0
    shared = {name: value for name, value in row.data.items() if name != "cuts"}
    cuts, positions = row.data["cuts"], range(row.position, row.last_position + 1)
    times = [row.at] * len(cuts) if row.gaps is None else decode_gaps(row.at, row.gaps)
    if is_joined:
        cuts, positions, times = (
            [len(text) - cuts[-1], cuts[-1]],
            positions[:: len(cuts) - 1],
            [times[0], times[-1]],
        )
    for length, position, at in zip(cuts, positions, times, strict=True):
        delta = text[start : start + length]
        yield LogEntry(position, _event({**shared, "delta": delta}), at)
        start += length


def _event(data: dict[str, Any]) -> ClientEvent:
    # A later release may have stored more.
    return CLIENT_EVENTS.validate_python(data, extra="ignore")
