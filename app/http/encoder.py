"""The port of the wire encoders, and what all wires made of server-sent events share."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Protocol

from app.streams.port import LogEntry

EVENT_STREAM = "text/event-stream"
RETRY = b"retry: 2000\n\n"
"""Sent first: a client that lost its connection comes back after two seconds."""
REVOKED = "The API key was revoked, or the session has ended."
HEARTBEAT = b": \n\n"
"""Sent when nothing is said for a while, so proxies keep the connection open."""


class Encoder(Protocol):
    """Says one run's events in the words of one wire.

    Pure and synchronous. An encoder may remember what it opened, so there is one per response,
    and it must hear the entries in order; whatever ids it makes follow from run id and position.
    Hence a replay is byte-identical: `encode(all) == encode(first) + encode(rest)`.
    """

    content_type: ClassVar[str]
    headers: ClassVar[Mapping[str, str]]
    """What the wire's clients look for besides."""
    opening: ClassVar[bytes]
    """Sent before the first entry, also to a client that resumes."""

    def encode(self, entries: Sequence[LogEntry]) -> bytes:
        """The frames of these entries, as one chunk; empty when the wire has no word for them."""
        ...

    def revoked(self) -> bytes:
        """The end of a response whose reader's API key was revoked, or session has ended."""
        ...
