"""EventLines: splits a stream of server-sent events into lines and events; pure.

As the standard for event streams says: a line ends with LF, CR or CRLF, a byte order mark at the start is
no part of the first line, and the `data` lines of an event are joined. Of an event that is too long only its
name and its size are kept.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

EVENT_BYTES = 4 * 1024 * 1024
"""The longest event that the gateway reads."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventLine(NamedTuple):
    """A line of data, or all lines of an event that has several."""

    event: bytes
    """The name of the event, empty if it has none."""
    data: bytes
    is_whole: bool
    """Whether the event has ended; a first line is passed on at once, because it usually is the only one."""
    dropped_bytes: int = 0
    """The size of an event that was too long to be kept, else 0."""


@dataclass(slots=True)
class EventLines:
    """Feed it bytes in pieces of any size."""

    max_bytes: int = EVENT_BYTES
    """The longest event whose data are kept."""
    _rest: bytearray = field(default_factory=bytearray)
    _after_cr: bool = False
    _begun: bool = False
    _event: bytes = b""
    _data: list[bytes] = field(default_factory=list)
    _held_bytes: int = 0
    """The size of the current event without its incomplete line."""
    _dropped_bytes: int = 0
    """The same of what is not kept."""
    _is_in_dropped_line: bool = False

    @property
    def is_between_events(self) -> bool:
        """Whether an event has ended and the next one has not begun."""
        is_within = self._rest or self._event or self._data or self._dropped_bytes or self._is_in_dropped_line
        return self._begun and not self._after_cr and not is_within

    def feed(self, chunk: bytes) -> Iterator[EventLine]:
        """The data in the next bytes; a line is complete with its first line-end byte."""
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        self._after_cr = self._after_cr or chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *ends, rest = chunk.split(b"\n")
        if self._is_in_dropped_line and ends:
            self._dropped_bytes += len(ends.pop(0))
            self._is_in_dropped_line = False
        for line in self._complete(ends):
            yield from self._line(line)
        if self._is_in_dropped_line:
            self._dropped_bytes += len(rest)
            return
        # In place: a line may arrive byte by byte.
        self._rest += rest
        if self._held_bytes + len(self._rest) > self.max_bytes:
            self._drop(self._rest)
            self._rest.clear()
            self._is_in_dropped_line = True

    def finish(self) -> Iterator[EventLine]:
        """The data of an event that is complete but for its line ends."""
        last = bytes(self._rest)
        self._rest.clear()
        yield from self._line(last)
        yield from self._line(b"")

    def _complete(self, ends: list[bytes]) -> list[bytes]:
        """The lines that end; the first one begins with the rest of earlier chunks."""
        if not ends or not self._rest:
            return ends
        first = bytes(self._rest) + ends[0]
        self._rest.clear()
        return [first, *ends[1:]]

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
            if self._dropped_bytes or self._held_bytes + len(value) > self.max_bytes:
                self._drop(value)
                return
            self._data.append(value)
            self._held_bytes += len(value)
            if len(self._data) == 1:
                yield EventLine(self._event, value, is_whole=False)

    def _drop(self, more: bytes | bytearray) -> None:
        """Keep nothing of the current event, to which this belongs."""
        self._dropped_bytes += self._held_bytes + len(more)
        self._data, self._held_bytes = [], 0

    def _end_of_event(self) -> Iterator[EventLine]:
        event, data, dropped = self._event, self._data, self._dropped_bytes
        self._event, self._data, self._held_bytes, self._dropped_bytes = b"", [], 0, 0
        if data or dropped:
            yield EventLine(event, b"\n".join(data), is_whole=True, dropped_bytes=dropped)
