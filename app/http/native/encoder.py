"""Our own wire: every event as it is, one server-sent event each."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from app.http.encoder import EVENT_STREAM, RETRY, REVOKED
from app.streams.event_json import to_json
from app.streams.port import LogEntry


class NativeEncoder:
    """`id` is the position, `event` the type, `data` the event as one line of ASCII JSON.

    It remembers nothing, so a client may resume after any position.
    """

    content_type: ClassVar[str] = EVENT_STREAM
    headers: ClassVar[Mapping[str, str]] = {}
    opening: ClassVar[bytes] = RETRY

    def encode(self, entries: Sequence[LogEntry]) -> bytes:
        """The frames of these entries, as one chunk."""
        return "".join(map(_frame, entries)).encode("ascii")

    def revoked(self) -> bytes:
        """A comment: the run goes on, and whoever comes back for the rest is answered with 401."""
        return f": {REVOKED}\n\n".encode("ascii")


def _frame(entry: LogEntry) -> str:
    position, event = entry
    return f"id: {position}\nevent: {event.type}\ndata: {to_json(event)}\n\n"
