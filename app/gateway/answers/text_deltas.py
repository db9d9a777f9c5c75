"""Deltas of text that follow each other, as the provider writes them, are parsed together; pure."""

import json
import re
from collections.abc import Iterator
from typing import Final

from app.gateway.answers.event_lines import EventLine, EventLines
from app.gateway.answers.received import ReceivedContent

_HEAD: Final = b"event: content_block_delta\ndata: "
_STRING: Final = rb'"(?:[^"\\\r\n]++|\\[^\r\n])*+"'
_EVENT: Final = (
    _HEAD + rb'\{"type": ?"content_block_delta", ?"index": ?[0-9]{1,4}, ?"delta": ?\{"type": ?'
    rb'"(?:text_delta", ?"text|thinking_delta", ?"thinking|input_json_delta", ?"partial_json)": ?'
    rb"(%s)\} *+\}\n\n" % _STRING
)
_TEXT: Final = re.compile(_EVENT)
_EVENTS: Final = re.compile(rb"(?:%s)++" % _EVENT)


def feed(lines: EventLines, content: ReceivedContent, piece: bytes) -> Iterator[EventLine]:
    """What `lines` finds in the next bytes of a stream; whole deltas of text go to `content` instead."""
    read = 0
    for found in _EVENTS.finditer(piece):
        yield from lines.feed(piece[read : found.start()])
        read = found.start()
        texts = _TEXT.findall(found[0])
        try:
            text = "".join(json.loads((b"[%s]" % b",".join(texts)).decode()))
        except ValueError:
            continue
        if lines.is_between_events:
            content.add({"text": text}, len(found[0]) - len(texts) * len(_HEAD + b"\n\n"))
            read = found.end()
    yield from lines.feed(piece[read:])
