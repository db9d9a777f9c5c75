"""JsonScanner: counts the values and nesting levels of a JSON body while it arrives, before it is parsed."""

import re
from itertools import accumulate
from typing import Final

from app.errors import Invalid
from app.http.admission.strict_json import MAX_DEPTH, MAX_VALUES
from app.platform.serialization.large_json import count_parts

_MAX_MARKS: Final = 2 * MAX_VALUES
"""Limit of commas plus opening brackets, and of strings: each is at most twice the number of values."""

_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+("|\\?\Z)', re.DOTALL)
"""A string and its end: a quote, or nothing or half an escape sequence where the piece ends before."""

_LEVELS: Final = {b"["[0]: 1, b"{"[0]: 1, b"]"[0]: -1, b"}"[0]: -1}
_NO_BRACKETS: Final = bytes(set(range(256)) - set(_LEVELS))


class JsonScanner:
    """Counts incrementally; distinguishes strings from structure and knows nothing else of JSON."""

    def __init__(self) -> None:
        self._marks = 0
        self._strings = 0
        self._depth = 0
        self._begun = b""
        """Of a string in which the last piece has ended: its quote, and the half of an escape sequence."""

    def feed(self, piece: bytes) -> None:
        """Count a piece; raises `Invalid` for too many values or levels."""
        if self._begun == b'"' and b'"' not in piece and b"\\" not in piece:
            # Most bytes of a large body are images: long strings without escapes.
            return
        parts = _STRING.split(self._begun + piece)
        structure, ends = b"".join(parts[::2]), parts[1::2]
        self._strings += len(ends) - bool(self._begun)
        self._begun = b'"' + ends[-1] if ends and ends[-1] != b'"' else b""
        self._marks += count_parts(structure)
        levels = (_LEVELS[bracket] for bracket in structure.translate(None, _NO_BRACKETS))
        depths = [*accumulate(levels, initial=self._depth)]
        self._depth = depths[-1]
        if max(depths) > MAX_DEPTH or min(depths) < -MAX_DEPTH:
            raise Invalid.field("body", f"is nested deeper than {MAX_DEPTH} levels")
        if self._marks > _MAX_MARKS or self._strings > _MAX_MARKS:
            raise Invalid.field("body", f"holds more than {MAX_VALUES} values")
