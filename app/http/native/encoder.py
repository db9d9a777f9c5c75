"""NativeEncoder: one server-sent event for each event of a run."""

from collections.abc import Sequence
from typing import ClassVar

from app.events import Done
from app.http.streaming.encoder import RETRY_LINE, REVOKED_MESSAGE, Encoder
from app.http.streaming.stopping import retry_line
from app.platform.clock.event_times import rfc3339
from app.streams.event_json import to_json
from app.streams.port import LogEntry


class NativeEncoder(Encoder):
    """`id` is the position, `event` the type, `data` the event and its time as one line of ASCII JSON.

    It is stateless, so a client can resume after any position.
    """

    preamble: ClassVar[bytes] = RETRY_LINE

    def encode(self, entries: Sequence[LogEntry]) -> bytes:
        """The frames of these entries, as one chunk."""
        return "".join(map(_frame, entries)).encode("ascii")

    def encode_revoked(self) -> bytes:
        """A comment: the run continues, and a client that reconnects gets 401."""
        return f": {REVOKED_MESSAGE}\n".encode("ascii")

    def encode_stopping(self) -> bytes:
        """When to reconnect: another server continues the stream."""
        return retry_line()


def _frame(entry: LogEntry) -> str:
    position, event, at = entry
    if isinstance(event, Done):
        event = event.model_copy(update={"cached": None})
    # The time is beside the event, so it is not in its JSON.
    data = f'{to_json(event)[:-1]},"at":"{rfc3339(at)}"}}'
    return f"id: {position}\nevent: {event.type}\ndata: {data}\n\n"
