"""The JSON text of values in the database, and its reading: pure."""

import json
import math
import re
from itertools import accumulate
from typing import Any

from app.storable import MAX_DEPTH, storable


def _finite(number: str) -> float | None:
    value = float(number)
    return value if math.isfinite(value) else None


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=lambda _: None)
_UNSTORABLE_ESCAPE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")


_NO_BRACKETS = bytes(set(range(256)).difference(b"[]{}"))


def dump_json(value: Any) -> str:
    """The JSON text that is stored of a value."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        # No number, or without an end.
        return json.dumps(storable(value))
    return json.dumps(storable(value)) if _is_changed(text) else text


def load_json(text: str) -> Any:
    """The value, as `dump_json` would have stored it: other programs may have written the row."""
    value = _DECODER.decode(text)
    return storable(value) if _is_changed(text) else value


def _is_changed(text: str) -> bool:
    """Whether `storable` may change the value of this text: it looks at every value, which takes long."""
    return _UNSTORABLE_ESCAPE.search(text) is not None or _is_deep(text)


def _is_deep(text: str) -> bool:
    if text.count("{") + text.count("[") <= MAX_DEPTH:
        return False
    # Strings may contain brackets: they are every second piece between quotes that are not escaped.
    pieces = text.replace("\\\\", "").replace('\\"', "").split('"')
    brackets = "".join(pieces[::2]).encode(errors="replace").translate(None, _NO_BRACKETS)
    return max(accumulate(1 if each in b"{[" else -1 for each in brackets), default=0) > MAX_DEPTH
