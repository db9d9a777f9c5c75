"""SessionEncoder: the frames of a session's stream, run by run."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from app.errors import Unauthenticated
from app.http.anthropic.errors import error_json
from app.http.managed_agents.mapper import Event, SessionMapper
from app.http.streaming.encoder import REVOKED_MESSAGE, STOPPING_MESSAGE, Encoder, json_frame
from app.http.streaming.stopping import ServerStopping
from app.streams.port import LogEntry


class SessionEncoder(Encoder):
    """Encodes the entries of the run that it was given last."""

    def __init__(self, previews: Collection[str] = ()) -> None:
        self._previews = previews
        self._mapper = SessionMapper("", "")

    def turn_to(self, run_id: str, question: str) -> None:
        """What follows are entries of this run."""
        self._mapper = SessionMapper(run_id, question, self._previews)

    def add_usage(self, usage: Sequence[Event]) -> None:
        """What was used by the end of this run, which is encoded next."""
        self._mapper.usage = usage

    def skip(self, entries: Sequence[LogEntry]) -> None:
        """Read entries whose frames the client does not get: later ones depend on them."""
        for entry in entries:
            for _ in self._mapper.map(entry):
                pass

    def encode(self, entries: Sequence[LogEntry]) -> bytes:
        """The frames of these entries, as one chunk."""
        return b"".join(frame(event) for entry in entries for event in self._mapper.map(entry))

    def encode_revoked(self) -> bytes:
        """An error: the session goes on."""
        return _error(Unauthenticated.status, Unauthenticated.code, REVOKED_MESSAGE)

    def encode_stopping(self) -> bytes:
        """An error: a stream that only ends looks like the end of the session."""
        return _error(ServerStopping.status, ServerStopping.code, STOPPING_MESSAGE)


def frame(event: Mapping[str, Any]) -> bytes:
    """An event with its type as that of the frame, which their clients need."""
    return f"event: {event['type']}\n{json_frame(event)}".encode("ascii")


def _error(status: int, code: str, message: str) -> bytes:
    return frame(error_json(status, code, message)[1])
