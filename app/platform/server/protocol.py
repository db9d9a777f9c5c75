"""The HTTP protocol of our ports: uvicorn's, with deadlines, bounded buffers and limits on connections."""

import asyncio
import ipaddress
import resource
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from app.platform.server.refusals import RefusalForm, refusal

MAX_HEAD_BYTES: Final = 65_536
"""Limit of a request line with its headers, and of the protocol bytes between two pieces of a body."""
MAX_HEADERS: Final = 128
MAX_URL_BYTES: Final = 16_384
MAX_PIPELINED: Final = 8
MAX_SHORT_CHUNKS: Final = 4096
"""Chunks below 64 bytes in one body: each costs time. Longer chunks reduce the count."""
_LONG_CHUNK_BYTES: Final = 64
MAX_SKIPPED_BYTES: Final = 67_108_864
"""Of a body that no handler reads. It is read and discarded, because a client that is still sending when
its connection is closed may never see the response."""

SKIPPED_BYTES_PER_S: Final = 16_777_216
"""Per connection: discarding must not take the processor from other work."""
_SKIP_PAUSE_FACTOR = 4
"""After discarding, all connections together pause for so many times as long."""

_SWEEP_S = 0.5
_EVICTABLE_AFTER_S = 5.0
"""How long a response must have waited for its reader before its connection can be evicted."""


def raise_open_files() -> int:
    """Raise this process's soft limit of open files to the hard limit; returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The number of connections and their timeouts.

    Proxies are exempt from `per_address`, because many clients share their address.
    """

    connections: int
    per_address: int
    header_timeout_s: float
    write_timeout_s: float
    is_proxy: Callable[[str], bool] = lambda _: False


class _RefusedRequest(Exception):
    """Raised inside the parser to stop it."""


class ConnectionTable:
    """The open connections of one server."""

    def __init__(self, limits: ConnectionLimits, form: RefusalForm = lambda _path, _problem: None) -> None:
        """`form` is that of the errors of a path, where they are no problem documents."""
        self.limits = limits
        self.form = form
        self._open: set[BoundedHttpProtocol] = set()
        self._idle: dict[BoundedHttpProtocol, None] = {}
        self._by_address: Counter[str] = Counter()
        self._sweeping: asyncio.TimerHandle | None = None
        self.skip_from = 0.0
        """The time from which bodies may be discarded again, by any connection."""

    def __len__(self) -> int:
        return len(self._open)

    def protocol(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> "BoundedHttpProtocol":
        """Create the protocol of a new connection; uvicorn calls this as `Config(http=...)`."""
        return BoundedHttpProtocol(self, config, server_state, app_state=app_state, loop=_loop)

    def admit(self, connection: "BoundedHttpProtocol") -> HTTPStatus | None:
        """Add a connection, evicting an idle one if necessary; or return the status to refuse it with."""
        address = connection.address
        if address is not None and self._by_address[address] >= self.limits.per_address:
            return HTTPStatus.TOO_MANY_REQUESTS
        if len(self._open) >= self.limits.connections and not self._evict():
            return HTTPStatus.SERVICE_UNAVAILABLE
        self._open.add(connection)
        if address is not None:
            self._by_address[address] += 1
        if self._sweeping is None:
            self._sweeping = connection.loop.call_later(_SWEEP_S, self._sweep, connection.loop)
        return None

    def release(self, connection: "BoundedHttpProtocol") -> None:
        """Remove a connection; does nothing the second time."""
        self._idle.pop(connection, None)
        if connection in self._open:
            self._open.remove(connection)
            if connection.address is not None:
                self._by_address[connection.address] -= 1
                if not self._by_address[connection.address]:
                    del self._by_address[connection.address]

    def mark_idle(self, connection: "BoundedHttpProtocol") -> None:
        """Mark a connection as having no request: it may be evicted."""
        if connection in self._open:
            self._idle[connection] = None

    def mark_busy(self, connection: "BoundedHttpProtocol") -> None:
        self._idle.pop(connection, None)

    def _evict(self) -> bool:
        """Close the connection that has been idle longest, else one whose client does not read."""
        candidate = next(iter(self._idle), None)
        if candidate is None:
            unread = [each for each in self._open if each.unread_for_s() > _EVICTABLE_AFTER_S]
            candidate = max(unread, key=BoundedHttpProtocol.unread_for_s, default=None)
        if candidate is None:
            return False
        self.release(candidate)
        candidate.transport.abort()
        return True

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        for connection in list(self._open):
            connection.check_deadlines(loop.time())
        self._sweeping = loop.call_later(_SWEEP_S, self._sweep, loop) if self._open else None


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection; limits whatever uvicorn would wait for or buffer without bound."""

    def __init__(
        self,
        table: ConnectionTable,
        config: Config,
        server_state: ServerState,
        *,
        app_state: dict[str, Any],
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        super().__init__(config, server_state, app_state, loop)
        self.address: str | None = None
        # That of a connection without a request is none.
        self.url = b""
        self._table = table
        self._refusal = HTTPStatus.BAD_REQUEST
        self._head_since: float | None = None
        self._head_begun = self._busy = False
        self._head_bytes = self._chunks = self._unaccounted = self._unsent = 0
        self._skipped: int | None = None
        self._last = False
        self._sent_at = self._empty_at = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Add the connection to the table, or refuse it."""
        super().connection_made(transport)
        peer = self.client[0] if self.client else None
        if peer is not None and not self._table.limits.is_proxy(peer):
            self.address = _network_of(peer)
        if (refusal := self._table.admit(self)) is not None:
            self.address = None
            self._refuse(refusal)
        else:
            self._table.mark_idle(self)
            self._head_since = self.loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.release(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes within the limits."""
        if self.transport.is_closing():
            return
        began = self.loop.time()
        self._unset_keepalive_if_required()
        if self._head_since is None and not self._busy:
            self._head_since = began
        self._unaccounted += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self._refuse(self._refusal)
        except httptools.HttpParserUpgrade:
            # Upgrades are not supported: the request is handled as it is, and is the last.
            if self._busy:
                self.cycle.keep_alive = False
        if self._unaccounted > MAX_HEAD_BYTES:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if self._skipped:
            self.flow.pause_reading()
            now = self.loop.time()
            self._table.skip_from = max(self._table.skip_from, now) + _SKIP_PAUSE_FACTOR * (now - began)
            paced = began + len(data) / SKIPPED_BYTES_PER_S
            self.loop.call_at(max(paced, self._table.skip_from), self._resume_reading)

    def on_message_begin(self) -> None:
        self._head_begun = True
        self._head_bytes = self._chunks = 0
        if self._head_since is None and not self._busy:
            # It arrived together with the end of a discarded body.
            self._unset_keepalive_if_required()
            self._head_since = self.loop.time()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A piece of the request's target was parsed."""
        super().on_url(url)
        if len(self.url) > MAX_URL_BYTES:
            self._stop_parser(HTTPStatus.REQUEST_URI_TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header or trailer was parsed; uvicorn stores both."""
        self._head_bytes += len(name) + len(value)
        if name.lower() == b"transfer-encoding" and value.strip().lower() != b"chunked":
            # Others are not decoded here, and a proxy may interpret them differently (request smuggling).
            self._stop_parser(HTTPStatus.BAD_REQUEST)
        if self._head_bytes > MAX_HEAD_BYTES or len(self.headers) >= MAX_HEADERS:
            self._stop_parser(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """All headers were parsed: from here on the handler watches its own deadline."""
        if len(self.pipeline) >= MAX_PIPELINED:
            self._stop_parser(HTTPStatus.BAD_REQUEST)
        self._head_since, self._head_begun, self._unaccounted = None, False, 0
        self._table.mark_busy(self)
        super().on_headers_complete()
        self._busy = True
        self._last = not self.cycle.keep_alive
        # The connection is closed where the end of the body is known.
        self.cycle.keep_alive = self.cycle.keep_alive or _has_body(self.headers)

    def on_chunk_header(self) -> None:
        self._chunks += 1
        if self._chunks > MAX_SHORT_CHUNKS:
            self._stop_parser(HTTPStatus.BAD_REQUEST)

    def on_body(self, body: bytes) -> None:
        """A piece of a body was parsed; it may be one to discard."""
        self._unaccounted = 0
        self._chunks = max(0, self._chunks - len(body) // _LONG_CHUNK_BYTES)
        if self._skipped is None:
            super().on_body(body)
            return
        self._skipped += len(body)
        if self._skipped > MAX_SKIPPED_BYTES:
            self.transport.abort()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if self._skipped is None:
            return
        self._skipped = self._head_since = None
        if self._last:
            self.transport.close()
        else:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        """The response was written: the connection is idle, or has its next request already."""
        goes_on = bool(self.pipeline)
        super().on_response_complete()
        if goes_on:
            return
        self._busy = False
        self.cycle.body.clear()
        self._table.mark_idle(self)
        if self.cycle.more_body:
            self._skipped = 0
        elif self._last:
            self.transport.close()
        if self._head_begun or self._skipped is not None:
            self._unset_keepalive_if_required()
            self._head_since = self.loop.time()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._sent_at = self.loop.time()
        super().resume_writing()

    def unread_for_s(self) -> float:
        """How long there has always been something that the client has not read."""
        return self.loop.time() - self._empty_at if self.transport.get_write_buffer_size() else 0.0

    def check_deadlines(self, now: float) -> None:
        """Close the connection if its headers are late or its client does not read."""
        limits = self._table.limits
        if self._head_since is not None and now - self._head_since > limits.header_timeout_s:
            if self._skipped is None:
                self._refuse(HTTPStatus.REQUEST_TIMEOUT)
            else:
                self.transport.abort()
        unsent = self.transport.get_write_buffer_size()
        if unsent == 0:
            self._empty_at = now
        if unsent == 0 or unsent < self._unsent:
            self._sent_at = now
        self._unsent = unsent
        if now - self._sent_at > limits.write_timeout_s:
            self.transport.abort()

    def _resume_reading(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def _stop_parser(self, refusal: HTTPStatus) -> None:
        self._refusal = refusal
        raise _RefusedRequest

    def _refuse(self, status: HTTPStatus) -> None:
        """Respond to an incomplete request and close; in the middle of a response only close."""
        if self.transport.is_closing():
            return
        self._head_since = None
        if self._busy:
            if self.pipeline or self.cycle.response_started:
                self.transport.abort()
                return
            # Its handler may be waiting for the rest of the body.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write(refusal(status, self.url, self._table.form))
        self.transport.close()


def _has_body(headers: list[tuple[bytes, bytes]]) -> bool:
    given = dict(headers)
    return b"transfer-encoding" in given or given.get(b"content-length", b"0") != b"0"


def _network_of(address: str) -> str:
    """The address, or the /64 network of an IPv6 address, because one client can use all of it."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        mapped = parsed.ipv4_mapped
        return str(mapped or ipaddress.IPv6Network((parsed, 64), strict=False))
    return str(parsed)
