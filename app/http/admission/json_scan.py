"""JsonScanner: counts the values and nesting levels of a JSON body while it arrives, before it is parsed."""

import re
from typing import Final

from app.errors import Invalid
from app.http.admission.strict_json import MAX_DEPTH, MAX_VALUES

_MAX_MARKS: Final = 2 * MAX_VALUES
"""Limit of commas plus opening brackets, and of strings: each is at most twice the number of values."""

_STRING: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_MARK: Final = re.compile(rb'[\[\]{},"]')
_QUOTE, _COMMA, _BACKSLASH = b'",\\'
_OPENING, _CLOSING = frozenset(b"[{"), frozenset(b"]}")


class JsonScanner:
    """Counts incrementally; distinguishes strings from structure and knows nothing else of JSON."""

    def __init__(self) -> None:
        self._marks = 0
        self._strings = 0
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def feed(self, piece: bytes) -> None:
        """Count a piece; raises `Invalid` for too many values or levels."""
        position = 1 if self._escaped and piece else 0
        self._escaped = self._escaped and not piece
        while position < len(piece):
            scan = self._scan_string if self._in_string else self._scan_structure
            position = scan(piece, position)

    def _scan_string(self, piece: bytes, position: int) -> int:
        quote = piece.find(b'"', position)
        end = len(piece) if quote < 0 else quote
        if piece.find(b"\\", position, end) < 0:
            # Most bytes of a large body are images: long strings without escapes.
            self._in_string = quote < 0
            return end + 1
        found = _STRING.match(piece, position)
        end = found.end() if found else position
        if end < len(piece) and piece[end] == _BACKSLASH:
            # The escaped character comes with the next piece.
            self._escaped = True
        elif end < len(piece):
            self._in_string = False
        return end + 1

    def _scan_structure(self, piece: bytes, position: int) -> int:
        for found in _MARK.finditer(piece, position):
            mark = piece[found.start()]
            if mark == _QUOTE:
                self._in_string = True
                self._strings += 1
                self._check()
                return found.end()
            if mark in _CLOSING:
                self._depth -= 1
            else:
                self._marks += 1
                self._depth += mark in _OPENING
            self._check()
        return len(piece)

    def _check(self) -> None:
        if abs(self._depth) > MAX_DEPTH:
            raise Invalid.field("body", f"is nested deeper than {MAX_DEPTH} levels")
        if self._marks > _MAX_MARKS or self._strings > _MAX_MARKS:
            raise Invalid.field("body", f"holds more than {MAX_VALUES} values")
