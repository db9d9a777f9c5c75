"""Compares a link with the rows it was made from; pure."""

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from app.billing.chain.records import LinkedRow
from app.requests.attribution import ERASED

_END_USER = "end_user"
_EMPTY: tuple[Any, ...] = (None, "", {}, [])


def changed_rows(row: LinkedRow) -> Iterator[str]:
    place = f"account {row.link.account_id}, position {row.link.position}"
    try:
        chained = _parsed(row.link.content)
        parts = {"entry": (chained["entry"], row.entry), "receipt": (chained["receipt"], row.receipt)}
    except (LookupError, TypeError, ValueError):
        yield f"{place}: its content cannot be read"
        return
    for part, (was, text) in parts.items():
        now = None if text is None else _parsed(text)
        if was is not None and now is None:
            yield f"{place}: the {part} {was['id']} is missing"
        elif was is None and now is not None:
            yield f"{place}: the {part} {now['id']} was added"
        elif was is not None and now is not None:
            if _names_the_same(was.get(_END_USER), now.get(_END_USER), row.end_user_hash):
                now = {**now, _END_USER: was[_END_USER]}
            for name in _differing(was, now):
                yield (
                    f"{place}: {name} of the {part} {was['id']} was {_shown(was.get(name))} "
                    f"and is now {_shown(now.get(name))}"
                )


def as_it_is(row: LinkedRow) -> str | None:
    """The content as the rows are now: that of the link if they are unchanged; None if there is no entry."""
    if row.entry is None:
        return None
    if not any(changed_rows(row)):
        return row.link.content
    return f'{{"entry":{row.entry},"receipt":{row.receipt or "null"}}}'


def _names_the_same(chained: Any, stored: Any, stored_hash: str | None) -> bool:
    """Whether a receipt has the end user of its link; links from before there were hashes have its name."""
    if not isinstance(chained, str) or not isinstance(stored, str):
        return False
    return chained == stored_hash or (stored.startswith(ERASED) and not chained.startswith(ERASED))


def _differing(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in (*was, *(now.keys() - was.keys())):
        if name not in was:
            # A column that did not exist then.
            same = now[name] in _EMPTY or now[name] is False or _equal(now[name], 0)
        else:
            same = name in now and _equal(was[name], now[name])
        if not same:
            yield name


def _equal(one: Any, other: Any) -> bool:
    """Whether two values of JSON are equal: numbers by value, but true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def _parsed(text: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(text, parse_float=Decimal)
    return parsed


def _shown(value: Any) -> str:
    return (str(value) if isinstance(value, Decimal) else ascii(value))[:200]
