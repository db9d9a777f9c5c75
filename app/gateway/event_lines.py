"""EventLines: splits a stream of server-sent events into lines and events; pure.

As the standard for event streams says: a line ends with LF, CR or CRLF, a byte order mark at the start is
no part of the first line, and the `data` lines of an event are joined.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventLine(NamedTuple):
    """A line of data, or all lines of an event that has several."""

    event: bytes
    """The name of the event, empty if it has none."""
    data: bytes
    is_whole: bool
    """Whether the event has ended; a first line is passed on at once, because it usually is the only one."""


@dataclass(slots=True)
class EventLines:
    """Feed it bytes in pieces of any size."""

    _rest: bytearray = field(default_factory=bytearray)
    _after_cr: bool = False
    _begun: bool = False
    _event: bytes = b""
    _data: list[bytes] = field(default_factory=list)
    _held_bytes: int = 0

    @property
    def held_bytes(self) -> int:
        """The size of the incomplete line and of the event that has not ended."""
        return len(self._rest) + self._held_bytes

    def feed(self, chunk: bytes) -> Iterator[EventLine]:
        """The data in the next bytes; a line is complete with its first line-end byte."""
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        self._after_cr = self._after_cr or chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *ends, rest = chunk.split(b"\n")
        lines = [bytes(self._rest) + ends[0], *ends[1:]] if ends else []
        # In place: a line may arrive byte by byte.
        if ends:
            self._rest.clear()
        self._rest += rest
        for line in lines:
            yield from self._line(line)

    def finish(self) -> Iterator[EventLine]:
        """The data of an event that is complete but for its line ends."""
        last = bytes(self._rest)
        self._rest.clear()
        yield from self._line(last)
        yield from self._line(b"")

    def clear(self) -> None:
        """Forget the incomplete line."""
        self._rest.clear()

    def _line(self, line: bytes) -> Iterator[EventLine]:
        if not self._begun:
            line, self._begun = line.removeprefix(_BYTE_ORDER_MARK), True
        if not line:
            yield from self._end_of_event()
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            self._event = value.strip()
        elif name == b"data":
            self._data.append(value)
            self._held_bytes += len(value)
            if len(self._data) == 1:
                yield EventLine(self._event, value, is_whole=False)

    def _end_of_event(self) -> Iterator[EventLine]:
        event, data = self._event, self._data
        self._event, self._data, self._held_bytes = b"", [], 0
        if data:
            yield EventLine(event, b"\n".join(data), is_whole=True)
