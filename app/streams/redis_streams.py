"""RedisEventLog: the event log that several processes share, one Redis stream per run.

An entry's id is `<position>-0`, chosen by the run's one writer. That makes appending idempotent
(a repeated XADD is refused, not duplicated) and fences a second writer.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import structlog
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.exceptions import RedisError, ResponseError

from app.errors import Conflict, Unavailable
from app.events import ClientEvent, Done
from app.ids import RunKey
from app.streams.event_json import from_json, to_json
from app.streams.port import LogEntry

LIFETIME_S = 24 * 3600
"""Expiry of a stream after its last event; only matters after a crash."""
GRACE_S = 60
"""How long a deleted run stays, so that readers in any process can finish."""
BATCH = 500
"""The maximum number of entries per read; decoding them takes about a millisecond."""

_EVENT = b"event"
log = structlog.get_logger(__name__)


class EventLogUnavailable(Unavailable):
    """The event log cannot be reached; try again later."""


class WriterFenced(Conflict):
    """The run has ended, or another process writes its events now."""


class _Row(NamedTuple):
    """A stream entry; `line` is None in the marker at the end of a deleted run."""

    position: int
    line: bytes | None


class RedisEventLog:
    """Holds the events of all processes' runs on one Redis-protocol server.

    A waiting reader occupies a connection (about 16 KB here, and one of the server's `maxclients`)
    for `wait_s` at a time. Beyond `waiting_readers` readers share connections, which adds latency.
    Appending has connections of its own.
    """

    def __init__(self, url: str, *, waiting_readers: int = 256, wait_s: float = 2.0) -> None:
        self._commands = _client(url, 16, timeout_s=5.0, retry=Retry(ExponentialBackoff(0.5, 0.05), 3))
        self._waits = _client(url, waiting_readers, timeout_s=wait_s + 5.0, retry=Retry(NoBackoff(), 0))
        self._turns = asyncio.Semaphore(waiting_readers)
        self._waiting_readers = waiting_readers
        self._wait_ms = round(wait_s * 1000)
        self._positions: dict[RunKey, int] = {}
        self._closed = False

    async def append(self, run: RunKey, event: ClientEvent) -> int:
        """Append an event and return its position.

        Raises `WriterFenced` after `Done` or `delete`, or when another writer was faster.
        """
        with self._reachable():
            # Until this has succeeded the last position is unknown, also after cancellation.
            last = self._positions.pop(run, None)
            if last is None:
                last = await self._last_position(_key(run))
            position = last + 1
            await self._add(_key(run), position, to_json(event).encode())
        if not isinstance(event, Done):
            self._positions[run] = position
        return position

    async def resume(self, run: RunKey, *, after: int) -> None:
        """Continue after what the stream holds, or after `after` if it holds nothing."""
        with self._reachable():
            if await self._last(_key(run)) is None:
                self._positions[run] = after

    async def follow(
        self,
        run: RunKey,
        *,
        after: int = 0,
    ) -> AsyncGenerator[tuple[LogEntry, ...], None]:
        """Yield the entries after a position, everything ready at once, until `Done`."""
        key, position, wait_ms = _key(run), after, None
        while not self._closed:
            with self._reachable():
                rows = await self._next(key, position, wait_ms)
                if not rows and await self._is_over(key, position, started=position > after):
                    return
            if entries := _entries(rows):
                yield entries
                position = entries[-1].position
            if rows and _is_end(rows[-1]):
                return
            # Otherwise every waiting reader would keep its own copy of the run in memory.
            del rows, entries
            wait_ms = self._wait_ms

    async def read(self, run: RunKey) -> tuple[LogEntry, ...]:
        """Return everything held of a run."""
        held: list[LogEntry] = []
        with self._reachable():
            # In batches, so that other tasks run in between.
            while rows := _rows(await self._commands.xrange(_key(run), min=_after(held), count=BATCH)):
                held += _entries(rows)
                if len(rows) < BATCH:
                    break
        return tuple(held)

    async def delete(self, run: RunKey) -> None:
        """Delete a run: a marker ends its readers, and the server drops it after `GRACE_S`."""
        self._positions.pop(run, None)
        with self._reachable():
            async with self._commands.pipeline(transaction=True) as pipe:
                pipe.xadd(_key(run), {b"forgotten": b""})
                pipe.expire(_key(run), GRACE_S)
                await pipe.execute()

    async def ping(self) -> None:
        """Raise `EventLogUnavailable` when the server does not answer."""
        with self._reachable():
            await self._commands.ping()

    async def aclose(self) -> None:
        """Close the connections; waits for the readers, which end within `wait_s`."""
        if self._closed:
            return
        self._closed = True
        # Closing a connection that a reader waits on would leave it half open.
        for _ in range(self._waiting_readers):
            await self._turns.acquire()
        await self._waits.aclose()
        await self._commands.aclose()

    async def _add(self, key: str, position: int, line: bytes) -> None:
        try:
            async with self._commands.pipeline(transaction=True) as pipe:
                pipe.xadd(key, {_EVENT: line}, id=f"{position}-0")
                pipe.expire(key, LIFETIME_S)
                await pipe.execute()
        except ResponseError:
            # Refused: this may be our own retry after a lost response.
            there = _rows(await self._commands.xrange(key, f"{position}-0", f"{position}-0"))
            if there and there[0].line == line:
                return
            last = await self._last(key)
            if last and last.position >= position:
                raise WriterFenced from None
            raise

    async def _last_position(self, key: str) -> int:
        last = await self._last(key)
        if last is None:
            return 0
        if _is_end(last):
            raise WriterFenced
        return last.position

    async def _last(self, key: str) -> _Row | None:
        rows = _rows(await self._commands.xrevrange(key, count=1))
        return rows[0] if rows else None

    async def _next(self, key: str, position: int, wait_ms: int | None) -> list[_Row]:
        async with self._turns:
            if self._closed:
                return []
            found: Any = await self._waits.xread({key: f"{position}-0"}, count=BATCH, block=wait_ms)
        return _rows(found[0][1]) if found else []

    async def _is_over(self, key: str, position: int, *, started: bool) -> bool:
        """Whether nothing can follow a position: the run ended before it, or its events were dropped."""
        if self._closed:
            return True
        last = await self._last(key)
        if last is None:
            return started
        return last.position <= position and _is_end(last)

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        if self._closed:
            raise EventLogUnavailable
        try:
            yield
        except RedisError as error:
            # The error's text may quote the address or an event.
            log.warning("event_log.unavailable", reason=type(error).__name__)
            raise EventLogUnavailable from error


def _client(url: str, connections: int, *, timeout_s: float, retry: Retry) -> Redis:
    return Redis.from_pool(
        BlockingConnectionPool.from_url(
            url,
            max_connections=connections,
            timeout=timeout_s,
            socket_timeout=timeout_s,
            socket_connect_timeout=5.0,
            retry=retry,
            protocol=2,
        ),
    )


def _key(run: RunKey) -> str:
    return f"runtally:events:{run.account_id}:{run.run_id}"


def _after(held: Sequence[LogEntry]) -> str:
    return f"({held[-1].position}-0" if held else "-"


def _rows(found: Any) -> list[_Row]:
    return [_Row(int(entry_id.partition(b"-")[0]), fields.get(_EVENT)) for entry_id, fields in found]


def _entries(rows: list[_Row]) -> tuple[LogEntry, ...]:
    return tuple(LogEntry(row.position, from_json(row.line)) for row in rows if row.line is not None)


def _is_end(row: _Row) -> bool:
    return row.line is None or isinstance(from_json(row.line), Done)
