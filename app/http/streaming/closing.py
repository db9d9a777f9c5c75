"""OpenStreams: the streams and waiting requests of this server, which end when it stops."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio

from app.http.streaming.stopping import ServerStopping

_RETRY_AFTER_S = 1
_QUIET_S = 0.1
"""A stream without output for so long has sent what there is."""

_AT_MOST_S = 2.0
_CHECK_S = 0.02


@dataclass(slots=True, eq=False)
class OpenStream:
    """A stream that is being sent, or a request that waits for a result."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    sent_at: float = field(default_factory=lambda: asyncio.get_running_loop().time())

    def sent(self) -> None:
        self.sent_at = asyncio.get_running_loop().time()


class OpenStreams:
    """Closes streams once they are quiet, so that the end of a run that has just ended is sent."""

    def __init__(self) -> None:
        self._streams: set[OpenStream] = set()
        self._is_closing = False

    def __len__(self) -> int:
        """Count the streams, and the requests that wait."""
        return len(self._streams)

    @contextmanager
    def opened(self) -> Iterator[OpenStream]:
        """Send a stream, or wait for a result, in the body; raises `ServerStopping` if it was cut short."""
        if self._is_closing:
            raise ServerStopping(retry_after_s=_RETRY_AFTER_S)
        stream = OpenStream()
        with stream.scope:
            self._streams.add(stream)
            try:
                yield stream
            finally:
                self._streams.discard(stream)
        if stream.scope.cancelled_caught:
            raise ServerStopping(retry_after_s=_RETRY_AFTER_S)

    async def close(self) -> None:
        self._is_closing = True
        loop = asyncio.get_running_loop()
        began = loop.time()
        while self._streams:
            now = loop.time()
            for stream in self._streams:
                if now - max(stream.sent_at, began) > _QUIET_S or now - began > _AT_MOST_S:
                    stream.scope.cancel()
            await asyncio.sleep(_CHECK_S)
