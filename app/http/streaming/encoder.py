"""Encoder: the port of all wires, and constants of server-sent events."""

import json
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Protocol

from app.streams.port import LogEntry

EVENT_STREAM = "text/event-stream"
RETRY_LINE = b"retry: 2000\n"
"""Sent first: clients reconnect two seconds after a lost connection.

Without an empty line, so it belongs to the block of the first event: httpx-sse makes an event of every block.
"""
STOPPING_MESSAGE = "This server is stopping; the run continues."
REVOKED_MESSAGE = "The API key was revoked, or the session has ended."

DONE_FRAME: Final = "data: [DONE]\n\n"
"""The last event of wires that have one for all responses."""

PAUSE_AFTER_S: Final = 0.05
"""Long enough to receive all stored events: a replay may contain the decision of a pending request."""

PAUSE_AT_LATEST_S: Final = 1.0
"""The same while other events keep arriving, for example those of a subagent that runs beside the call."""

PAUSE_BESIDE_CALLS_AFTER_S: Final = 3.0
"""The same while calls of other tools are executed beside one that the client executes."""


class Encoder(Protocol):
    """Encodes one run's events as the bytes of one wire.

    Pure and synchronous. An encoder may keep state, so there is one per response, and it must receive the
    entries in order. The ids it generates depend only on run id and position, so a replay is
    byte-identical: `encode(all) == encode(first) + encode(rest)`.
    """

    headers: ClassVar[Mapping[str, str]] = {}
    """Additional response headers of the wire."""
    preamble: ClassVar[bytes] = b""
    """Sent before the first entry, also when a client resumes; nothing where clients do not reconnect."""

    def encode(self, entries: Sequence[LogEntry]) -> bytes:
        """The frames of these entries as one chunk; may be empty."""
        ...

    def encode_revoked(self) -> bytes:
        """The last frames of a response whose API key was revoked or whose session has ended."""
        ...

    def encode_stopping(self) -> bytes:
        """The last frames of a response that is cut short because the server stops; the run continues."""
        ...


class PausingEncoder(Encoder, Protocol):
    """An encoder of a wire whose clients send decisions in a new request."""

    pause_at_latest_s: ClassVar[float | None] = PAUSE_AT_LATEST_S
    """Seconds of waiting for events after which the response pauses even if some arrived; None: no limit."""

    @property
    def ended(self) -> bool: ...

    @property
    def pause_after_s(self) -> float | None:
        """Seconds without new events after which the response pauses; None if no person has to decide."""
        ...

    def encode_pause(self) -> bytes:
        """The last frames of a response to a run that waits for a person."""
        ...


def json_frame(data: object) -> str:
    """An event that is JSON, in ASCII."""
    return f"data: {json.dumps(data, separators=(',', ':'))}\n\n"
