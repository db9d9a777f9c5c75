"""Deltas of text that follow each other, as the provider writes them, are read together; pure."""

import json
import re
from collections.abc import Iterator
from typing import Final

from app.gateway.answers.event_lines import EventLine, EventLines
from app.gateway.answers.received import ReceivedContent

_HEAD: Final = b"event: content_block_delta\ndata: "
_BEFORE: Final = (
    _HEAD + rb'\{"type": ?"content_block_delta", ?"index": ?[0-9]{1,4}, ?"delta": ?\{"type": ?'
    rb'"(?:text_delta", ?"text|thinking_delta", ?"thinking|input_json_delta", ?"partial_json)": ?'
)
_STRING: Final = rb'"(?:[^"\\\r\n]++|\\[^\r\n])*+"'
_AFTER: Final = rb"\} *+\}\n\n"
_TEXT: Final = re.compile(rb"%s(%s)%s" % (_BEFORE, _STRING, _AFTER))
_EVENTS: Final = re.compile(rb"(?:%s%s%s)++" % (_BEFORE, _STRING, _AFTER))

# Half a surrogate pair is replaced by itself, so it must not meet the other half.
_PLAIN: Final = rb'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}))*+"'
_OF_A_BLOCK: Final = re.compile(rb"(%s)%s%s(?:\1%s%s)++" % (_BEFORE, _PLAIN, _AFTER, _PLAIN, _AFTER))


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


def joined(piece: bytes) -> bytes:
    """The bytes with one delta for those of a block that follow each other, which say the same."""
    return _OF_A_BLOCK.sub(_join, piece)


def _join(found: re.Match[bytes]) -> bytes:
    try:
        found[0].decode()
    except UnicodeDecodeError:
        # What stands before the mistake is read.
        return found[0]
    return b'%s"%s"}}\n\n' % (found[1], b"".join(text[1:-1] for text in _TEXT.findall(found[0])))
