"""RunStreams: the responses that follow a run, over every wire."""

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request
from sse_starlette import EventSourceResponse

from app.bootstrap.services import Services
from app.http.streaming.disconnect import while_connected
from app.http.streaming.encoder import Encoder, PausingEncoder
from app.http.streaming.pausing import chunks_until_pause
from app.http.streaming.sse import InterruptibleStream, OpenReader, encoded
from app.ids import RunKey
from app.requests.principal import Principal
from app.streams.port import LogEntry

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RunStreams:
    """Responds to one request. The client is a reader of the run until it has the response or disconnects.

    `stops_unread`: whether the run is cancelled when its readers have left.
    """

    request: Request
    services: Services
    heartbeat_s: float
    open_reader: OpenReader

    def events(
        self, caller: Principal, run: RunKey, encoder: Encoder, *, after: int = 0, stops_unread: bool = False
    ) -> EventSourceResponse:
        chunks = encoded(self.services.runs.follow(run, after=after), encoder)
        return self._response(caller, run, chunks, encoder, stops_unread=stops_unread)

    def until_pause(
        self,
        caller: Principal,
        run: RunKey,
        batches: AsyncGenerator[Sequence[LogEntry], None],
        encoder: PausingEncoder,
        *,
        stops_unread: bool,
    ) -> EventSourceResponse:
        """All events, to the end of the run or to where it waits for a person."""
        chunks = chunks_until_pause(batches, encoder)
        return self._response(caller, run, chunks, encoder, stops_unread=stops_unread)

    async def result(
        self,
        caller: Principal,
        run: RunKey,
        wait: Callable[[], Coroutine[Any, Any, _T]],
        *,
        stops_unread: bool = False,
    ) -> _T:
        """What `wait` returns once the run has ended."""
        with self.open_reader(caller, run):
            async with self.services.readers.reading(run, stops_unread=stops_unread):
                return await while_connected(self.request, wait())

    def _response(
        self,
        caller: Principal,
        run: RunKey,
        chunks: AsyncGenerator[bytes, None],
        encoder: Encoder,
        *,
        stops_unread: bool,
    ) -> EventSourceResponse:
        counted = self.services.readers.counted(chunks, run=run, stops_unread=stops_unread)
        scope = self.open_reader(caller, run)
        return InterruptibleStream(counted, encoder, heartbeat_s=self.heartbeat_s, reader_scope=scope)
