"""JSON of other programs that is almost valid, as JSON that can be parsed; pure.

Programs in JavaScript cut texts between the two halves of a character, and write the half as an escape; some
schemas are nested without end. The parser refuses such a message as a whole, for one text or tool in it.
"""

import re

_ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
"""Escapes in strings: pairs of halves, halves without the other one, and all others."""
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_MARKS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[{]|[\]}]', re.DOTALL)
_OPENING = b"[{"
_MOST_LEVELS = 150
"""The parser takes 200."""
_TOO_DEEP = b'"[nested too deeply]"'


def parsable(text: bytes) -> bytes:
    """The JSON with U+FFFD for halves of characters, and a text for what is nested too deeply."""
    if _HALF.search(text):
        text = _ESCAPES.sub(_whole, text)
    if text.count(b"{") + text.count(b"[") > _MOST_LEVELS:
        text = _flattened(text)
    return text


def _whole(escape: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if escape[1] else escape[0]


def _flattened(text: bytes) -> bytes:
    pieces: list[bytes] = []
    depth = kept = 0
    for mark in _MARKS.finditer(text):
        first = mark[0][:1]
        if first == b'"':
            continue
        if first in _OPENING:
            depth += 1
            if depth == _MOST_LEVELS + 1:
                pieces += [text[kept : mark.start()], _TOO_DEEP]
        else:
            if depth == _MOST_LEVELS + 1:
                kept = mark.end()
            depth -= 1
    if depth > _MOST_LEVELS:
        # It does not end; the parser refuses it.
        return text
    return b"".join([*pieces, text[kept:]])
