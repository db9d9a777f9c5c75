"""Which attachments of a conversation are sent: the provider takes only so many in one request; pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from app.conversations.neutral_transcript import is_attachment, without_attachments
from app.requests.attachments import MAX_TOTAL_BYTES

MAX_COUNT: Final = 100
"""Images and documents that the Messages API takes in a request; its vision guide names this number."""

MAX_CHARS: Final = MAX_TOTAL_BYTES // 3 * 4
"""Of all in base64: what a client may attach to one message, and what leaves room for texts and tools."""

_TOO_MANY: Final = (
    f"[An image is left out here: the calls of one message may return {MAX_COUNT} images "
    f"of {MAX_TOTAL_BYTES} bytes together. Request fewer at a time.]"
)


def sendable(messages: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """The messages with notes for their earliest attachments, if they have more than a request may have.

    What is left out depends on the messages before only, and then is half of what a request may have: so
    that the prompt begins like the one before, which the provider has cached, for as many turns as possible.
    The attachments of one message are never left out because of their own number.
    """
    sizes = [
        (index, _chars(block)) for index, message in enumerate(messages) for block in _attachments(message)
    ]
    first, count, chars = 0, 0, 0
    for index, size in sizes:
        count, chars = count + 1, chars + size
        if count <= MAX_COUNT and chars <= MAX_CHARS:
            continue
        while sizes[first][0] < index and (count > MAX_COUNT // 2 or chars > MAX_CHARS // 2):
            count, chars, first = count - 1, chars - sizes[first][1], first + 1
        # All of a message, or none.
        while first and sizes[first][0] == sizes[first - 1][0]:
            count, chars, first = count - 1, chars - sizes[first][1], first + 1
    if not first:
        return messages
    end = sizes[first][0]
    return [*without_attachments(messages[:end]), *messages[end:]]


class ResultImages:
    """Keeps the images of one message's results within what a request may have."""

    def __init__(self) -> None:
        self._count = self._chars = 0

    def kept(self, block: dict[str, Any]) -> dict[str, Any]:
        """The content of a result; a note for an image that is one too many."""
        if not is_attachment(block):
            return block
        size = _chars(block)
        if self._count >= MAX_COUNT or self._chars + size > MAX_CHARS:
            return {"type": "text", "text": _TOO_MANY}
        self._count, self._chars = self._count + 1, self._chars + size
        return block


def _attachments(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for block in message["content"]:
        if is_attachment(block):
            yield block
        elif block["type"] == "tool_result" and isinstance(block.get("content"), list):
            yield from (each for each in block["content"] if is_attachment(each))


def _chars(block: Mapping[str, Any]) -> int:
    source = block.get("source")
    return len(str(source.get("data", ""))) if isinstance(source, dict) else 0
