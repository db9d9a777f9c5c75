"""The transport of the gateway's calls, against servers that end, break off and misbehave."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest

from app.platform.http1 import HEAD_BYTES, PIECE_BYTES, REQUEST_WRITTEN, Http1Transport
from tests.authority import Authority
from tests.patience import PATIENCE_S

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
LARGE = b"x" * (8 * 1024 * 1024)
"""More than the buffers of two sockets."""


@dataclass(slots=True)
class Caller:
    """Calls one server."""

    transport: Http1Transport
    url: str
    requests: asyncio.Queue[tuple[bytes, asyncio.StreamWriter]] = field(default_factory=asyncio.Queue)
    """What the server gets: the head of each request, and what answers it."""
    reads: asyncio.Event = field(default_factory=asyncio.Event)
    """Set: the server reads bodies, too, before it answers."""
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    written: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                if reads := self.reads.is_set():
                    await reader.readexactly(length)
                self.requests.put_nowait((head, writer))
                await self.reads.wait()
                while not reads and (piece := await reader.read(length)):
                    if b"POST" in piece:
                        self.requests.put_nowait((piece, writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def send(self, body: bytes = b"hello") -> httpx2.Response:
        async def trace(event: str, _info: object) -> None:
            self.written.append(event)

        extensions = {"trace": trace, "timeout": {"connect": PATIENCE_S}}
        request = httpx2.Request("POST", self.url, content=body, extensions=extensions)
        async with asyncio.timeout(PATIENCE_S):
            return await self.transport.handle_async_request(request)

    async def read(self, body: bytes = b"hello") -> tuple[int, bytes]:
        """Status and body of an answer that is read to its end."""
        response = await self.send(body)
        try:
            async with asyncio.timeout(PATIENCE_S):
                return response.status_code, b"".join([piece async for piece in response.aiter_raw()])
        finally:
            await response.aclose()


@asynccontextmanager
async def calling(
    *, kept: int = 4, idle_s: float = PATIENCE_S, authority: Authority | None = None
) -> AsyncIterator[Caller]:
    """A caller; with an authority by TLS."""
    tls = authority and ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    if authority and tls:
        tls.load_cert_chain(authority.certificate("localhost"))
    context = ssl.create_default_context(cafile=authority.file if authority else None)
    caller = Caller(Http1Transport(context, kept=kept, idle_s=idle_s), "")
    caller.reads.set()
    server = await asyncio.start_server(caller.serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    caller.url = f"{'https' if tls else 'http'}://localhost:{port}/v1?beta=true"
    async with server:
        async with caller.transport:
            yield caller
        for writer in caller.writers:
            writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for writer in caller.writers), return_exceptions=True)


async def answered(caller: Caller, answer: bytes, *, ends: bool = False) -> tuple[int, bytes]:
    """What the caller reads of this answer on a new connection."""
    earlier = list(caller.writers)

    async def serve() -> None:
        _, writer = await caller.requests.get()
        assert writer not in earlier
        writer.write(answer)
        if ends:
            writer.close()

    read, _ = await asyncio.gather(caller.read(), serve())
    return read


@pytest.fixture(params=["plain", "tls"])
def authority(request: pytest.FixtureRequest, tmp_path: Path) -> Authority | None:
    return Authority(tmp_path) if request.param == "tls" else None


async def test_a_connection_is_used_again(authority: Authority | None) -> None:
    async with calling(authority=authority) as caller:
        reading = asyncio.create_task(caller.read(LARGE))
        head, writer = await caller.requests.get()
        writer.write(CHUNKED + b"2\r\nhi\r\n4\r\n you\r\n0\r\n\r\n")
        assert await reading == (200, b"hi you")
        again = asyncio.create_task(caller.read())
        _, writer = await caller.requests.get()
        writer.write(OK + b"content-length: 3\r\n\r\nbye")
        assert await again == (200, b"bye")

    assert head.startswith(b"POST /v1?beta=true HTTP/1.1\r\nHost: localhost:")
    assert len(caller.writers) == 1
    assert caller.written == [REQUEST_WRITTEN] * 2


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        pytest.param(OK + b"connection: close\r\ncontent-length: 2\r\n\r\nhi", b"hi", id="closes"),
        pytest.param(OK + b"\r\nuntil the end", b"until the end", id="without a length"),
        pytest.param(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + CHUNKED + b"0\r\n\r\n", b"", id="103"),
    ],
)
async def test_an_answer_may_end_in_several_ways(answer: bytes, body: bytes) -> None:
    async with calling() as caller:
        assert await answered(caller, answer, ends=True) == (200, body)
        # The connection is gone: the next call has another one.
        assert await answered(caller, answer, ends=True) == (200, body)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"HTTP/1.1 200", id="a part of the head"),
        pytest.param(CHUNKED + b"5\r\nhel", id="a part of a chunk"),
        pytest.param(OK + b"content-length: 9\r\n\r\nhello", id="too little"),
        pytest.param(b"220 smtp.example.org\r\n", id="another protocol"),
        pytest.param(b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", id="upgrade"),
        pytest.param(OK + b"x: " + b"y" * HEAD_BYTES, id="a long head"),
    ],
)
async def test_what_breaks_off_is_an_error(answer: bytes) -> None:
    async with calling() as caller:
        with pytest.raises(httpx2.TransportError):
            await answered(caller, answer, ends=True)


@pytest.mark.parametrize("before", [OK, CHUNKED + b"1\r\n!\r\n0\r\n"])
async def test_heads_and_trailers_have_a_limit(before: bytes) -> None:
    async with calling() as caller:
        sending = asyncio.create_task(caller.read())
        _, writer = await caller.requests.get()
        writer.write(before)
        writer.write(b"x: " + b"y" * 4 * HEAD_BYTES)
        writer.close()
        with pytest.raises(httpx2.RemoteProtocolError, match="a head is too long"):
            await sending


async def test_what_has_arrived_is_read_before_the_error() -> None:
    async with calling() as caller:
        sending = asyncio.create_task(caller.send())
        _, writer = await caller.requests.get()
        writer.write(CHUNKED + b"2\r\nhi\r\n")
        response = await sending
        pieces = aiter(response.aiter_raw())
        assert await anext(pieces) == b"hi"
        writer.write(b"no size\r\n")
        with pytest.raises(httpx2.RemoteProtocolError):
            await anext(pieces)
        await response.aclose()


async def test_a_connection_that_its_server_has_closed_is_not_used() -> None:
    async with calling() as caller:
        reading = asyncio.create_task(caller.read())
        _, writer = await caller.requests.get()
        writer.write(OK + b"content-length: 2\r\n\r\nhi")
        await reading
        # Its end is in the socket, where the event loop has not looked yet.
        writer.transport.abort()
        assert await answered(caller, OK + b"content-length: 3\r\n\r\nbye") == (200, b"bye")

    assert caller.written == [REQUEST_WRITTEN] * 2


@pytest.mark.parametrize("after", [OK + b"content-length: 1\r\n\r\n!", b"x"])
async def test_what_nothing_was_requested_for_ends_a_connection(after: bytes) -> None:
    async with calling() as caller:
        assert await answered(caller, OK + b"content-length: 2\r\n\r\nhi" + after) == (200, b"hi")
        assert await answered(caller, OK + b"content-length: 3\r\n\r\nbye") == (200, b"bye")


@pytest.mark.parametrize(("kept", "idle_s"), [(0, PATIENCE_S), (4, 0)])
async def test_connections_are_not_kept_for_longer(kept: int, idle_s: float) -> None:
    async with calling(kept=kept, idle_s=idle_s) as caller:
        for _ in range(2):
            assert await answered(caller, CHUNKED + b"2\r\nhi\r\n0\r\n\r\n") == (200, b"hi")


async def test_a_reader_that_is_slow_slows_the_server_down() -> None:
    async with calling() as caller:
        sending = asyncio.create_task(caller.send())
        _, writer = await caller.requests.get()
        writer.write(OK + b"content-length: %d\r\n\r\n" % len(LARGE) + LARGE)
        draining = asyncio.create_task(writer.drain())
        response = await sending
        pieces = aiter(response.aiter_raw())
        first = await anext(pieces)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not draining.done()
        rest = [piece async for piece in pieces]
        await draining
        await response.aclose()

    assert first + b"".join(rest) == LARGE
    assert max(map(len, rest)) <= PIECE_BYTES


async def test_an_answer_that_has_arrived_need_not_be_read() -> None:
    async with calling() as caller:
        sending = asyncio.create_task(caller.send())
        _, writer = await caller.requests.get()
        writer.write(OK + b"content-length: 100000\r\n\r\n" + LARGE[:100_000])
        await (await sending).aclose()
        assert await answered(caller, OK + b"content-length: 3\r\n\r\nbye") == (200, b"bye")


async def test_an_answer_may_come_before_the_request_was_written(authority: Authority | None) -> None:
    async with calling(authority=authority) as caller:
        caller.reads.clear()
        sending = asyncio.create_task(caller.read(LARGE))
        _, writer = await caller.requests.get()
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
        assert await sending == (413, b"no")
        caller.reads.set()
        # What is left of that request must not be taken for the next one.
        assert await answered(caller, OK + b"content-length: 3\r\n\r\nbye") == (200, b"bye")

    assert caller.written == [REQUEST_WRITTEN]


async def test_a_request_that_breaks_off_was_not_written(authority: Authority | None) -> None:
    async with calling(authority=authority) as caller:
        caller.reads.clear()
        sending = asyncio.create_task(caller.send(LARGE))
        _, writer = await caller.requests.get()
        writer.transport.abort()
        with pytest.raises(httpx2.TransportError):
            await sending

    assert caller.written == []


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 413 Too Large\r\n\r\nno"])
async def test_a_server_that_ends_its_side_answers_no_more(answer: bytes) -> None:
    async with calling() as caller:
        caller.reads.clear()
        sending = asyncio.create_task(caller.read(LARGE))
        _, writer = await caller.requests.get()
        writer.write(answer)
        writer.write_eof()
        if answer:
            assert await sending == (413, b"no")
        else:
            with pytest.raises(httpx2.RemoteProtocolError):
                await sending

    assert caller.written == []


@pytest.mark.parametrize("cancels", [True, False])
async def test_an_answer_that_is_not_read_to_its_end_ends_the_connection(*, cancels: bool) -> None:
    async with calling() as caller:
        sending = asyncio.create_task(caller.send())
        _, writer = await caller.requests.get()
        if cancels:
            sending.cancel()
            await asyncio.wait({sending})
        else:
            writer.write(CHUNKED)
            await (await sending).aclose()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)


@pytest.mark.parametrize("header", ["a\r\nb: c", "a\nb"])
async def test_a_header_is_one_line(header: str) -> None:
    async with calling() as caller:
        request = httpx2.Request("POST", caller.url, headers=[(b"x", header.encode())])
        with pytest.raises(httpx2.LocalProtocolError):
            await caller.transport.handle_async_request(request)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://a..b/", f"https://{'a' * 64}.example/"])
async def test_where_nothing_can_listen_is_an_error_of_the_connection(url: str) -> None:
    async with calling() as caller:
        caller.url = url
        with pytest.raises(httpx2.ConnectError):
            await caller.send()
