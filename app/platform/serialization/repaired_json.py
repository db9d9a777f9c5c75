"""JSON of other programs that is almost valid, as JSON that can be parsed; pure.

Programs in JavaScript cut texts between the two halves of a character, and write the half as an escape; some
schemas are nested without end. The parser refuses such a message as a whole, for one text or tool in it.
"""

import re

_HALVES = re.compile(
    rb"\\(?<!\\\\)((?:\\\\)*+)"
    rb"u[dD](?:[89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|([89a-fA-F][0-9a-fA-F]{2}))"
)
"""Escapes of two halves, and of one without the other; before an escape are pairs of backslashes only."""
_NEXT_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+([\[\]{}])', re.DOTALL)
"""What is before a bracket, strings included."""
_OPENING = b"[{"
_MOST_LEVELS = 150
"""The parser takes 200."""
_TOO_DEEP = b'"[nested too deeply]"'


def parsable(text: bytes) -> bytes:
    """The JSON with U+FFFD for halves of characters, and a text for what is nested too deeply."""
    text = _HALVES.sub(_whole, text)
    if text.count(b"{") + text.count(b"[") > _MOST_LEVELS:
        text = _flattened(text)
    return text


def _whole(escape: re.Match[bytes]) -> bytes:
    return b"\\%bufffd" % escape[1] if escape[2] else escape[0]


def _flattened(text: bytes) -> bytes:
    pieces: list[bytes] = []
    depth = kept = end = 0
    # Not `finditer`: after the last bracket it would search the rest from each of its characters.
    while found := _NEXT_BRACKET.match(text, end):
        end = found.end()
        if found[1] in _OPENING:
            depth += 1
            if depth == _MOST_LEVELS + 1:
                pieces += [text[kept : found.start(1)], _TOO_DEEP]
        else:
            if depth == _MOST_LEVELS + 1:
                kept = end
            depth -= 1
    if depth > _MOST_LEVELS:
        # It does not end; the parser refuses it.
        return text
    return b"".join([*pieces, text[kept:]])
