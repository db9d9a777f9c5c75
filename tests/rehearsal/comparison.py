"""Comparison of the facts of two environments; pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tests.rehearsal.facts import THERE, Fact, Value

ABSENT = "-"
_LONG = 120
"""Of longer texts only the part around the first difference is shown."""
_CONTEXT = 20
_MOST_PARTS = 6
"""How many parts of a new or vanished fact are named."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One row of the table."""

    topic: str
    name: str
    old: str
    new: str
    used_by: str


def differences(old: Iterable[Fact], new: Iterable[Fact]) -> list[Difference]:
    """What differs, in the order of the facts; what differs in the same way in several topics is one row."""
    before = {(fact.topic, fact.name): fact for fact in old}
    after = {(fact.topic, fact.name): fact for fact in new}
    topics: dict[Difference, list[str]] = {}
    for key in dict.fromkeys([*before, *after]):
        for row in _rows(before.get(key), after.get(key)):
            topics.setdefault(replace(row, topic=""), []).append(row.topic)
    found = [replace(row, topic=" and ".join(named)) for row, named in topics.items()]
    order = list(dict.fromkeys(row.topic for row in found))
    return sorted(found, key=lambda row: order.index(row.topic))


def _rows(old: Fact | None, new: Fact | None) -> Sequence[Difference]:
    known = new or old
    if known is None or (old and new and old.value == new.value):
        return []
    used_by = (old or known).used_by
    if old is None or new is None or not (isinstance(old.value, dict) and isinstance(new.value, dict)):
        shown = [ABSENT if fact is None else _summary(fact.value) for fact in (old, new)]
        return [Difference(known.topic, known.name, *_excerpts(*shown), used_by)]
    parts = [
        (part, old.value.get(part, ABSENT), new.value.get(part, ABSENT))
        for part in dict.fromkeys([*old.value, *new.value])
    ]
    return [
        Difference(known.topic, f"{known.name}: {part}", *_excerpts(before, after), used_by)
        for part, before, after in parts
        if before != after
    ]


def _excerpts(old: str, new: str) -> tuple[str, str]:
    """Both texts, or of long ones what surrounds their first difference."""
    if max(len(old), len(new)) <= _LONG:
        return old, new
    pairs = enumerate(zip(old, new, strict=False))
    same = next((number for number, (one, other) in pairs if one != other), min(len(old), len(new)))
    start = max(0, same - _CONTEXT)
    return _excerpt(old, start), _excerpt(new, start)


def _excerpt(text: str, start: int) -> str:
    shown = text[start : start + _LONG]
    return f"{'…' if start else ''}{shown}{'…' if start + _LONG < len(text) else ''}"


def _summary(value: Value) -> str:
    if isinstance(value, str):
        return value
    parts = [part if text == THERE else f"{part}: {text}" for part, text in value.items()]
    rest = [f"… {len(parts)} in all"] if len(parts) > _MOST_PARTS else []
    return ", ".join([*parts[:_MOST_PARTS], *rest]) or "nothing"
