"""EventStreamDecoder: server-sent events from the bytes of a response."""

from collections.abc import Iterator
from typing import NamedTuple

from runtally.errors import InvalidResponse

MAX_EVENT_BYTES = 512 * 2**20
"""Above any event of a server: its runs have at most `RUNTALLY_MAX_RUN_OUTPUT_MB`, 256 by default."""


class Frame(NamedTuple):
    """One event of the stream, or, without data, a comment or a `retry:`."""

    id: str
    event: str
    data: str
    retry_ms: int | None


class EventStreamDecoder:
    """Decodes as https://html.spec.whatwg.org/multipage/server-sent-events.html describes.

    Comments are reported as well: they show that the connection is alive. Memory is bounded, also for a line
    that does not end.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_event_bytes = max_event_bytes
        self._line: list[bytes] = []
        self._after_cr = False
        self._held_bytes = 0
        self._id = self._event = ""
        self._data: list[str] = []
        self._retry_ms: int | None = None

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """The frames that these bytes complete; raises `InvalidResponse` for an event that is too large."""
        if not chunk:
            return
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        # Not splitlines: only these three end a line here.
        *lines, rest = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            self._hold(line)
            whole = b"".join(self._line)
            self._line = []
            yield from self._decode(whole)
        self._hold(rest)

    def _hold(self, part: bytes) -> None:
        self._line.append(part)
        self._held_bytes += len(part)
        if self._held_bytes > self._max_event_bytes:
            raise InvalidResponse(f"The server sent an event of more than {self._max_event_bytes} bytes.")

    def _decode(self, line: bytes) -> Iterator[Frame]:
        if not line:
            self._held_bytes = 0
            if self._data or self._retry_ms is not None:
                yield Frame(self._id, self._event, "\n".join(self._data), self._retry_ms)
            self._event, self._data, self._retry_ms = "", [], None
            return
        name, _, value = line.decode("utf-8", errors="replace").partition(":")
        value = value.removeprefix(" ")
        match name:
            case "":
                self._held_bytes = self._held_bytes if self._data else 0
                yield Frame(self._id, "", "", None)
            case "event":
                self._event = value
            case "data":
                self._data.append(value)
            case "id" if "\0" not in value:
                self._id = value
            case "retry" if value.isascii() and value.isdigit():
                self._retry_ms = int(value[:9])
