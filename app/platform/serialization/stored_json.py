"""The JSON text of values in the database, and its reading: pure."""

import json
import math
import re
from typing import Any

from app.storable import MAX_DEPTH, storable


def _finite(number: str) -> float | None:
    value = float(number)
    return value if math.isfinite(value) else None


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=lambda _: None)
_UNSTORABLE_ESCAPE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")


def dump_json(value: Any) -> str:
    """The JSON text that is stored of a value."""
    return json.dumps(storable(value))


def load_json(text: str) -> Any:
    """The value, as `dump_json` would have stored it: other programs may have written the row."""
    value = _DECODER.decode(text)
    # Looking at every value takes longer than reading them.
    may_be_deep = text.count("{") + text.count("[") > MAX_DEPTH
    return storable(value) if may_be_deep or _UNSTORABLE_ESCAPE.search(text) else value
