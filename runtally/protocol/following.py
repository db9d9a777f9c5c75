"""Following: the events of one run, each once and in order, over as many connections as that takes.

It does no I/O: `RunStream` and `AsyncRunStream` send its requests and give it what they receive.
"""

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx

from runtally.errors import ConnectionFailed, Forbidden, InvalidResponse, RuntallyError
from runtally.events import Event, event_of
from runtally.protocol.call import Call
from runtally.protocol.calls import get_run, stream_run, stream_run_events, wait_for_run
from runtally.protocol.connection import Connection, require_success
from runtally.protocol.event_stream import EventStreamDecoder, Frame
from runtally.protocol.retries import Retries
from runtally.types import GraphFinal, Run

_ALIVE_S = 5.0
"""A connection that has lasted so long with heartbeats only counts as progress."""

_LAST_EVENT = "done"


class Following:
    """Where a reader of a run's events is."""

    def __init__(
        self, connection: Connection, run_id: str, *, body: dict[str, Any] | None, after: int
    ) -> None:
        self.run_id = run_id
        self.position = after
        self.ended = False
        self._connection = connection
        self._body = body
        self._joins_by_body = body is not None
        """Until the server has accepted the run."""
        self._may_read = True
        """Whether the key may read runs, and not only start them."""
        self._retries = Retries(connection)
        self._decoder = EventStreamDecoder()
        self._opened_at = self._sign_of_life_at = 0.0

    def call(self) -> Call[None]:
        """The next request to send."""
        self._decoder = EventStreamDecoder()
        if self._joins_by_body and self._body is not None:
            return stream_run(self._body)
        return stream_run_events(self.run_id, after=self.position)

    def opened(self, response: httpx.Response) -> None:
        """Check the head of a response; the body of one that is no success has been read."""
        require_success(response)
        kind = response.headers.get("content-type", "no type")
        if kind.partition(";")[0].strip().lower() != "text/event-stream":
            raise InvalidResponse(f"The response of {response.request.url} is no event stream but {kind}.")
        self._joins_by_body = not self._may_read
        self._opened_at = self._sign_of_life_at = time.monotonic()

    def received(self, chunk: bytes) -> Iterator[Event]:
        """The new events in these bytes; raises `InvalidResponse` for what no server sends."""
        for frame in self._decoder.feed(chunk):
            self._sign_of_life_at = time.monotonic()
            if frame.data:
                event = self._accepted(frame)
                if event is not None:
                    yield event
            elif frame.retry_ms is not None:
                self._retries.set_base(frame.retry_ms)
            elif self._sign_of_life_at - self._opened_at > _ALIVE_S:
                self._retries.reset()
        if time.monotonic() - self._sign_of_life_at > self._connection.timeout_s:
            raise InvalidResponse(f"{self._connection.url} sends bytes that are no events.")

    def closed(self) -> None:
        """The response has ended; raises an error that counts as a lost connection before the last event."""
        if not self.ended:
            message = f"{self._connection.url} closed the stream of the run {self.run_id} before its end."
            raise ConnectionFailed(message)

    def delay_after(self, error: Exception) -> float:
        """The seconds to wait before the next request; raises the client's error if there is none."""
        if isinstance(error, Forbidden) and self._body is not None and not self._joins_by_body:
            self._joins_by_body, self._may_read = True, False
            return 0
        return self._retries.delay_after(error, streaming=True)

    def result_call(self) -> Call[Run]:
        """The request for the run, which has ended."""
        return get_run(self.run_id)

    def final_of(self, run: Run) -> GraphFinal:
        """The result of this run."""
        if run.final is None:
            raise InvalidResponse(f"The run {self.run_id} has ended, and the server has no result of it.")
        return run.final

    def result_by_joining(self, refused: Forbidden) -> Call[GraphFinal]:
        """The request for the result by a key that may not read runs."""
        if self._body is None:
            raise refused
        return wait_for_run(self._body)

    def _accepted(self, frame: Frame) -> Event | None:
        """The event of a frame; None for one that was received before."""
        position = int(frame.id) if frame.id.isascii() and frame.id.isdigit() else 0
        try:
            data = json.loads(frame.data)
        except (ValueError, RecursionError) as error:
            raise InvalidResponse(f"An event of the run {self.run_id} is not JSON.") from error
        if not position > 0 or not isinstance(data, dict):
            message = f"An event of the run {self.run_id} has no position or no fields: id {frame.id[:40]!r}."
            raise InvalidResponse(message)
        if position <= self.position:
            return None
        self.position = position
        self._retries.reset()
        kind = frame.event or str(data.get("type"))
        self.ended = kind == _LAST_EVENT
        return event_of(kind, data)


def not_ended(run_id: str) -> RuntallyError:
    """The error of reading the result too early."""
    return RuntallyError(f"The run {run_id} is followed still: read its events to the end, or call result().")
