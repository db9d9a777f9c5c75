"""EgressProxy: lets the commands of one run reach the hosts of its graph by TLS, and nothing else.

It speaks HTTP CONNECT on a socket inside the run's sandbox, which has no other network. A name must be one of
the graph's, is resolved here, and its addresses are checked; only a checked address is connected to. Nothing
is sent there before the TLS hello names the same host: behind one address may be hosts of others.
"""

import asyncio
import re
from asyncio import IncompleteReadError, LimitOverrunError, StreamReader, StreamWriter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import structlog

from app.platform.metrics.egress import EgressMetrics, EgressRefusal
from app.platform.network import DIRECT, Network
from app.platform.outgoing import open_stream
from app.platform.ssrf_guard import AddressPolicy, AddressRefused, NameNotFound
from app.workspaces.egress.client_hello import ClientHello, HelloRefused, read_client_hello
from app.workspaces.egress.hosts import Target
from app.workspaces.records import HostTraffic

log = structlog.get_logger(__name__)

MAX_CONNECTIONS: Final = 16
"""At once, of one run."""
STEP_S: Final = 10.0
"""For each step until a connection is open: the request, the name, the connection, the TLS hello."""
IDLE_S: Final = 60.0
"""A connection without a byte in either direction is closed."""

_HEAD_BYTES: Final = 8192
_CHUNK_BYTES: Final = 65_536
_LOGGED_REFUSALS: Final = 20
"""Of one run; more are only counted."""
_REQUEST: Final = re.compile(rb"CONNECT ([!-~]{1,300}) HTTP/1\.[01]")
_CONNECTED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
_UNRECOGNIZED_NAME: Final = bytes.fromhex("15 0303 0002 02 70")
"""A fatal alert of TLS."""
_STATUS: Final[dict[EgressRefusal, str]] = {
    "request": "405 Method Not Allowed",
    "host": "403 Forbidden",
    "address": "403 Forbidden",
    "unreachable": "502 Bad Gateway",
    "limit": "429 Too Many Requests",
    "timeout": "504 Gateway Timeout",
}


class _Refused(Exception):
    """A connection is refused; the text is for the command and the operator."""

    def __init__(self, reason: EgressRefusal, text: str, *, in_tunnel: bool = False) -> None:
        self.reason = reason
        self.in_tunnel = in_tunnel
        super().__init__(text)

    @property
    def answer(self) -> bytes:
        """What the command gets."""
        if self.in_tunnel:
            return _UNRECOGNIZED_NAME if self.reason == "tls" else b""
        body = f"{self}\n".encode()
        head = (
            f"HTTP/1.1 {_STATUS[self.reason]}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
        )
        return head.encode() + b"Connection: close\r\n\r\n" + body


@dataclass(frozen=True, slots=True)
class Egress:
    """What the proxies of all runs have in common."""

    addresses: AddressPolicy
    network: Network = DIRECT
    metrics: EgressMetrics | None = None
    step_s: float = STEP_S
    idle_s: float = IDLE_S

    def proxy(self, hosts: Collection[str], *, max_bytes: int) -> "EgressProxy":
        """The proxy of a run that may reach these hosts, and exchange so many bytes with all of them."""
        return EgressProxy(self, hosts, max_bytes=max_bytes)


class EgressProxy:
    """The proxy of one run, from `listen` to `aclose`."""

    def __init__(self, egress: Egress, hosts: Collection[str], *, max_bytes: int) -> None:
        self._egress = egress
        self._metrics = egress.metrics or EgressMetrics()
        self._hosts = frozenset(hosts)
        self._bytes_left = max_bytes
        self._traffic: dict[str, HostTraffic] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._logged = 0
        self._closed = False

    @property
    def traffic(self) -> list[HostTraffic]:
        """What was exchanged with each host that was reached."""
        return list(self._traffic.values())

    async def listen(self, path: Path) -> None:
        """Listen at a new socket; `aclose` must follow."""
        self._server = await asyncio.start_unix_server(self._accept, path, limit=_HEAD_BYTES)
        if self._closed:
            # The run was cancelled meanwhile.
            self._server.close()

    async def aclose(self) -> None:
        self._closed = True
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        if self._closed:
            writer.transport.abort()
            return
        if len(self._connections) >= MAX_CONNECTIONS:
            refused = _Refused("limit", f"this run may have {MAX_CONNECTIONS} connections at once")
            self._count(refused)
            writer.write(refused.answer)
            writer.close()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve one connection until it ends."""
        try:
            # The command or the host has hung up, or one of them is silent: there is no one to answer.
            with suppress(OSError, IncompleteReadError):
                try:
                    await self._connect(reader, writer)
                except _Refused as refused:
                    self._count(refused)
                    writer.write(refused.answer)
                await self._finish(writer)
        finally:
            writer.transport.abort()

    async def _connect(self, reader: StreamReader, writer: StreamWriter) -> None:
        target = await self._requested(reader)
        addresses = await self._addresses_of(target)
        outer_reader, outer_writer = await self._open(target, addresses)
        try:
            writer.write(_CONNECTED)
            hello = await self._hello(reader, target)
            traffic = self._traffic.setdefault(str(target), HostTraffic(str(target)))
            traffic.connections += 1
            self._metrics.connected()
            self._take(len(hello.sent), traffic, "sent")
            outer_writer.write(hello.sent)
            await self._pass_on((reader, writer), (outer_reader, outer_writer), traffic)
            await self._finish(outer_writer)
        finally:
            outer_writer.transport.abort()

    async def _requested(self, reader: StreamReader) -> Target:
        """The host that is asked for; nothing else of the request is used."""
        try:
            async with asyncio.timeout(self._egress.step_s):
                head = await reader.readuntil(b"\r\n\r\n")
        except TimeoutError:
            raise _Refused("timeout", "the request takes too long") from None
        except LimitOverrunError:
            raise _Refused("request", "the request is too long") from None
        found = _REQUEST.fullmatch(head.split(b"\r\n", 1)[0])
        if found is None:
            raise _Refused("request", "only https is possible, by HTTP CONNECT")
        try:
            target = Target.read(found[1].decode("ascii"))
        except ValueError:
            raise _Refused("host", "only host names can be connected to, not addresses") from None
        if str(target) not in self._hosts:
            raise _Refused("host", f"{target} is not one of the hosts that this agent's commands may reach")
        if self._bytes_left <= 0:
            raise _Refused("limit", "this run has used up the bytes that it may exchange")
        return target

    async def _addresses_of(self, target: Target) -> list[str]:
        try:
            async with asyncio.timeout(self._egress.step_s):
                return await self._egress.addresses.resolve_name(*target)
        except AddressRefused:
            raise _Refused("address", f"{target} has an address that must not be connected to") from None
        except NameNotFound:
            raise _Refused("unreachable", f"{target} has no address") from None
        except TimeoutError:
            raise _Refused("timeout", f"the name of {target} takes too long") from None

    async def _open(self, target: Target, addresses: list[str]) -> tuple[StreamReader, StreamWriter]:
        """Connect to the first of the addresses that accepts it."""
        try:
            async with asyncio.timeout(self._egress.step_s):
                for address in addresses:
                    with suppress(OSError):
                        return await open_stream(self._egress.network, target.host, address, target.port)
        except TimeoutError:
            raise _Refused("timeout", f"{target} takes too long") from None
        raise _Refused("unreachable", f"{target} cannot be reached")

    async def _hello(self, reader: StreamReader, target: Target) -> ClientHello:
        try:
            async with asyncio.timeout(self._egress.step_s):
                hello = await read_client_hello(reader)
        except TimeoutError:
            raise _Refused("timeout", f"the TLS hello for {target} takes too long", in_tunnel=True) from None
        except HelloRefused as error:
            raise _Refused("tls", f"{target}: {error}", in_tunnel=True) from None
        if hello.server_name != target.host:
            raise _Refused("tls", f"{target}: the TLS hello names another server", in_tunnel=True)
        return hello

    async def _pass_on(
        self,
        inner: tuple[StreamReader, StreamWriter],
        outer: tuple[StreamReader, StreamWriter],
        traffic: HostTraffic,
    ) -> None:
        """Pass bytes on in both directions, until both have ended."""
        clock = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(self._egress.idle_s) as idle, asyncio.TaskGroup() as directions:

                async def pass_on(reader: StreamReader, writer: StreamWriter, way: _Direction) -> None:
                    while chunk := await reader.read(_CHUNK_BYTES):
                        idle.reschedule(clock() + self._egress.idle_s)
                        self._take(len(chunk), traffic, way)
                        writer.write(chunk)
                        await writer.drain()
                    if writer.can_write_eof():
                        writer.write_eof()

                directions.create_task(pass_on(inner[0], outer[1], "sent"))
                directions.create_task(pass_on(outer[0], inner[1], "received"))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _finish(self, writer: StreamWriter) -> None:
        """Close a connection once all is sent that was written."""
        async with asyncio.timeout(self._egress.step_s):
            writer.close()
            await writer.wait_closed()

    def _take(self, size: int, traffic: HostTraffic, way: "_Direction") -> None:
        """Count bytes that are passed on; raises `_Refused` instead of more than the limit."""
        self._bytes_left -= size
        if self._bytes_left < 0:
            text = f"{traffic.host}: this run has used up the bytes that it may exchange"
            raise _Refused("limit", text, in_tunnel=True)
        if way == "sent":
            traffic.sent_bytes += size
        else:
            traffic.received_bytes += size
        self._metrics.passed(way, size)

    def _count(self, refused: _Refused) -> None:
        self._metrics.refused(refused.reason)
        self._logged += 1
        if self._logged <= _LOGGED_REFUSALS:
            log.warning("egress.refused", refused=refused.reason, reason=str(refused))


_Direction = Literal["sent", "received"]
