"""Attachments: large contents of requests to another process, in the relay until the request is answered."""

from collections.abc import Iterator
from uuid import UUID

from app.streams.relay.client import Relay
from app.streams.relay.connection import RelayConnection

PIECE_BYTES = 2**18
"""What is written or read at once; more would delay everything else that passes the relay."""
EXPIRES_S = 30
"""In case the process that stored it dies."""


class Attachments:
    """Contents by an id that their sender has chosen; every method raises `EventLogUnavailable`."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    async def store(self, attachment_id: UUID, content: bytes) -> None:
        """Store a content, until it is deleted or expires."""
        relay = self._relay.part(str(attachment_id)).connection
        for key, start in _pieces(relay, attachment_id, len(content)):
            await relay.store(key, content[start : start + PIECE_BYTES], expires_s=EXPIRES_S)

    async def load(self, attachment_id: UUID, *, size: int) -> bytes | None:
        relay = self._relay.part(str(attachment_id)).connection
        pieces: list[bytes] = []
        for key, _ in _pieces(relay, attachment_id, size):
            if (piece := await relay.load(key)) is None:
                return None
            pieces.append(piece)
        return b"".join(pieces)

    async def delete(self, attachment_id: UUID, *, size: int) -> None:
        relay = self._relay.part(str(attachment_id)).connection
        await relay.delete([key for key, _ in _pieces(relay, attachment_id, size)])


def _pieces(relay: RelayConnection, attachment_id: UUID, size: int) -> Iterator[tuple[str, int]]:
    """The key of each piece and where in the content it starts."""
    for number, start in enumerate(range(0, size, PIECE_BYTES)):
        yield f"{relay.prefix}attachment:{attachment_id}:{number}", start
