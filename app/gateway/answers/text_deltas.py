"""TextDeltas: events of a stream that follow each other and hold text alone; pure.

As the provider writes them. Most events of an answer are such; what has arrived together is parsed together.
"""

import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from app.gateway.answers.event_lines import EventLine, EventLines

_HEAD: Final = b"event: content_block_delta\ndata: "
_STRING: Final = rb'"(?:[^"\\\r\n]++|\\[^\r\n])*+"'
_EVENT: Final = (
    _HEAD + rb'\{"type": ?"content_block_delta", ?"index": ?[0-9]{1,4}, ?"delta": ?\{"type": ?'
    rb'"(?:text_delta", ?"text|thinking_delta", ?"thinking|input_json_delta", ?"partial_json)": ?'
    rb"(%s)\} *+\}\n\n" % _STRING
)
_TEXT: Final = re.compile(_EVENT)
_EVENTS: Final = re.compile(rb"(?:%s)++" % _EVENT)


class TextDeltas(NamedTuple):
    """Where they are in a piece of the stream, and what they say."""

    start: int
    end: int
    text: str
    size: int
    """Of their data, in bytes."""


def feed(lines: EventLines, piece: bytes) -> Iterator[EventLine | TextDeltas]:
    """The next bytes of a stream: what `lines` finds in them, but deltas of text as far as they are whole."""
    read = 0
    for deltas in text_deltas(piece):
        yield from lines.feed(piece[read : deltas.start])
        read = deltas.start
        if lines.is_between_events:
            yield deltas
            read = deltas.end
    yield from lines.feed(piece[read:])


def text_deltas(piece: bytes) -> Iterator[TextDeltas]:
    """Those in a piece; what looks like them and cannot be parsed is left out."""
    for found in _EVENTS.finditer(piece):
        texts = _TEXT.findall(found[0])
        try:
            text = "".join(json.loads((b"[%s]" % b",".join(texts)).decode()))
        except ValueError:
            continue
        size = len(found[0]) - len(texts) * (len(_HEAD) + len(b"\n\n"))
        yield TextDeltas(found.start(), found.end(), text, size)
