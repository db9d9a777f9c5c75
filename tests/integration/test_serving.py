"""The protocol of our ports, on a port, with an app that needs nothing."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from app.platform.server import protocol
from app.platform.server.loopback import Receive, Scope, Send
from app.platform.server.refusals import RefusalForm
from tests.e2e.stories import until
from tests.patience import PATIENCE_S

HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST_CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
BIG = 50_000_000


class Port:
    """A port that is served."""

    def __init__(self, port: int, table: protocol.ConnectionTable) -> None:
        self.port = port
        self.table = table
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A bare connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1024)
        self._writers.append(writer)
        return reader, writer

    async def leave(self) -> None:
        """Close every connection that was made."""
        for writer in self._writers:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def answered(self, *parts: bytes) -> bytes:
        """Everything that comes until the connection ends when these bytes were sent."""
        reader, writer = await self.connect()
        came = b""
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
                # One after the other, as a slow client sends them.
                await asyncio.sleep(0.01)
            async with asyncio.timeout(PATIENCE_S):
                while piece := await reader.read(65_536):
                    came += piece
        except ConnectionError:
            return came
        return came

    async def until_open(self, count: int) -> None:
        """Wait until so many connections are open."""
        await until(lambda: len(self.table) == count)


async def measures(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the size of the body, or with a lot."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message["body"])
        more = message["more_body"]
    await answer(send, b"x" * BIG if scope["path"] == "/big" else str(size).encode())


async def refuses(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer without reading."""
    await answer(send, b"no")


async def answers_late(scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer without reading, and what is wanted late, later than connections are kept without a request."""
    if scope["path"] == "/late":
        await asyncio.sleep(0.5)
    await answer(send, scope["path"].strip("/").encode())


async def answer(send: Send, body: bytes) -> None:
    """Answer with a body."""
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def served(
    app: Any = measures, *form: RefusalForm, keep_alive_s: float = 60, **limits: Any
) -> AsyncIterator[Port]:
    """Serve while the body runs, with limits that are soon reached."""
    usual = {"connections": 5, "per_address": 100, "header_timeout_s": 60, "write_timeout_s": 60}
    table = protocol.ConnectionTable(protocol.ConnectionLimits(**{**usual, **limits}), *form)
    config = uvicorn.Config(
        app,
        interface="asgi3",
        lifespan="off",
        ws="none",
        log_config=None,
        timeout_keep_alive=keep_alive_s,  # type: ignore[arg-type]
    )
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: table.protocol(config, state, {}), "127.0.0.1", 0
    )
    async with server:
        port = Port(server.sockets[0].getsockname()[1], table)
        yield port
        await port.leave()
        for connection in list(state.connections):
            connection.transport.abort()


@pytest.mark.parametrize(
    "sent",
    [[], [b"GET / HT"], [HEAD + b"X: "], [b"\r\n"] * 5, [HEAD, b"X", b":", b" ", b"y"]],
    ids=["nothing", "half a line", "half a header", "empty lines", "byte by byte"],
)
async def test_late_headers_time_out(sent: list[bytes]) -> None:
    async with served(header_timeout_s=0.2) as port:
        assert (await port.answered(*sent)).startswith(b"HTTP/1.1 408 ")
        await port.until_open(0)


@pytest.mark.parametrize(
    ("app", "sent"),
    [
        (measures, [HEAD + b"\r\n" + b"GET / HT"]),
        (refuses, [b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n", b"ab" + b"GET / HT"]),
    ],
    ids=["in the same bytes", "after a discarded body"],
)
async def test_a_second_incomplete_request_times_out(app: Any, sent: list[bytes]) -> None:
    async with served(app, header_timeout_s=0.2) as port:
        came = await port.answered(*sent)

    assert came.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 408 " in came


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ([HEAD + b"X: " + b"a" * protocol.MAX_HEAD_BYTES + b"\r\n\r\n"], 431),
        ([HEAD + b"X: ", *[b"a" * 40_000] * 3], 431),
        ([HEAD + b"a: b\r\n" * protocol.MAX_HEADERS + b"\r\n"], 431),
        ([b"GET /" + b"a" * protocol.MAX_URL_BYTES + b" HTTP/1.1\r\n\r\n"], 414),
        ([b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"], 400),
        ([b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"], 400),
        ([b"\x16\x03\x01hello"], 400),
        ([b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"], 400),
        ([b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"], 400),
        ([b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"], 400),
        ([b"POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"], 400),
        ([b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\nhello!"], 400),
        ([CHUNKED + b"zz\r\n"], 400),
    ],
)
async def test_invalid_and_oversized_requests_are_refused(sent: list[bytes], status: int) -> None:
    async with served() as port:
        came = await port.answered(*sent)

    assert came.startswith(f"HTTP/1.1 {status} ".encode()), came[:200]
    assert b"application/problem+json" in came
    assert b"nosniff" in came


def of_a_wire(path: str, problem: dict[str, Any]) -> tuple[int, dict[str, Any], list[tuple[bytes, bytes]]]:
    """Has its own words."""
    return 400, {"path": path[:5], "was": problem["status"]}, [(b"x-wire", b"yes")]


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        (b"GET /a%62c?" + b"x" * protocol.MAX_URL_BYTES, {"path": "/abc", "was": 414}),
        (b"GET /abc/" + b"x" * protocol.MAX_URL_BYTES, {"path": "/abc/", "was": 414}),
        (b"GET /abc HTTP/1.1\r\nX: " + b"x" * protocol.MAX_HEAD_BYTES, {"path": "/abc", "was": 431}),
        (b"POST /abc HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", {"path": "/abc", "was": 400}),
        (b"GET /abc HTTP/1.1\r\nHost:", {"path": "/abc", "was": 408}),
        (b"", {"path": "", "was": 408}),
    ],
)
async def test_a_refusal_has_the_form_of_its_path(sent: bytes, found: dict[str, Any]) -> None:
    async with served(measures, of_a_wire, header_timeout_s=0.2) as port:
        head, _, body = (await port.answered(sent)).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n")
    assert b"\r\nx-wire: yes" in head
    assert json.loads(body) == found


@pytest.mark.parametrize(
    "sent",
    [
        [CHUNKED + b"1\r\na\r\n0\r\n", *[b"T: " + b"b" * 1000 + b"\r\n"] * 100],
        [CHUNKED + b"1\r\na\r\n0\r\nT: ", *[b"b" * 50_000] * 3],
        [CHUNKED + b"1;", *[b"b" * 50_000] * 3],
        [(HEAD + b"\r\n") * 5000],
    ],
    ids=["trailers", "an endless trailer", "an endless extension", "pipelined requests"],
)
async def test_every_buffer_is_bounded(sent: list[bytes]) -> None:
    async with served() as port:
        assert b"HTTP/1.1 200 " not in await port.answered(*sent)
        await port.until_open(0)


async def test_unusual_valid_requests_are_answered() -> None:
    async with served() as port:
        old = await port.answered(b"GET / HTTP/1.0\r\n\r\n")
        upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        socket = await port.answered(HEAD + upgrade, b"\x81\x05hello")
        close = b"Connection: close\r\n"
        pieces = CHUNKED.replace(b"Host", close + b"Host") + b"1\r\na\r\n" * 1000 + b"0\r\n\r\n"
        chunked = await port.answered(pieces)
        three = await port.answered((HEAD + b"\r\n") * 2 + HEAD + close + b"\r\n")

    assert all(came.startswith(b"HTTP/1.1 200 ") for came in (old, socket, chunked, three))
    assert chunked.endswith(b"1000")
    assert three.count(b"HTTP/1.1 200 ") == 3


async def test_idle_connections_are_evicted() -> None:
    async with served() as port:
        waiting = [await port.connect() for _ in range(5)]
        for _, writer in waiting:
            writer.write(b"GET / HT")
        await port.until_open(5)

        answers = [await port.answered(HEAD + b"Connection: close\r\n\r\n") for _ in range(5)]

    assert all(answer.startswith(b"HTTP/1.1 200 ") for answer in answers)


async def test_a_connection_with_a_request_is_not_evicted() -> None:
    async with served() as port:
        busy = [await port.connect() for _ in range(5)]
        for _, writer in busy:
            writer.write(CHUNKED)
        await port.until_open(5)
        async with asyncio.timeout(PATIENCE_S):
            while not (came := await port.answered(HEAD + b"\r\n")).startswith(b"HTTP/1.1 503 "):
                # Their requests are not known yet.
                assert came
        for _, writer in busy:
            writer.write(b"0\r\n\r\n")
        answers = [(await reader.readline())[:12] for reader, _ in busy]

    assert b"retry-after" in came
    assert answers.count(b"HTTP/1.1 200") >= 4


async def test_connections_per_address_are_limited_except_for_proxies() -> None:
    async with served(per_address=2) as port, served(per_address=2, is_proxy=lambda _: True) as proxied:
        for each in (port, proxied):
            for _ in range(2):
                await each.connect()
            await each.until_open(2)
        refused = await port.answered(HEAD + b"\r\n")
        allowed = await proxied.answered(HEAD + b"Connection: close\r\n\r\n")

    assert refused.startswith(b"HTTP/1.1 429 ")
    assert allowed.startswith(b"HTTP/1.1 200 ")


async def test_a_client_that_reads_nothing_is_disconnected() -> None:
    async with served(write_timeout_s=0.5) as port:
        _, writer = await port.connect()
        writer.write(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        await port.until_open(1)

        await port.until_open(0)


async def test_a_slow_reader_is_not_disconnected() -> None:
    async with served() as port:
        reader, writer = await port.connect()
        writer.write(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        head = await reader.readline()
        (connection,) = port.table._open
        # It is looked at with times of the test's own.
        assert port.table._sweeping is not None
        port.table._sweeping.cancel()
        unsent, now = connection.transport.get_write_buffer_size(), asyncio.get_running_loop().time()
        connection.check_deadlines(now)
        for _ in range(10):
            async with asyncio.timeout(PATIENCE_S):
                while connection.transport.get_write_buffer_size() == unsent:
                    assert await reader.read(65_536)
            unsent, now = connection.transport.get_write_buffer_size(), now + 59
            connection.check_deadlines(now)
        is_open = not connection.transport.is_closing()
        connection.check_deadlines(now + 61)
        is_closed = connection.transport.is_closing()

    assert head.startswith(b"HTTP/1.1 200 ")
    assert unsent > 0
    assert (is_open, is_closed) == (True, True)


@pytest.mark.parametrize("last", [b"", b"Connection: close\r\n"])
async def test_a_response_reaches_a_client_that_is_still_sending(last: bytes) -> None:
    post = b"POST / HTTP/1.1\r\nHost: x\r\n" + last + b"Content-Length: 30000000\r\n\r\n"
    async with served(refuses) as port:
        reader, writer = await port.connect()
        writer.write(post)
        for _ in range(30):
            writer.write(b"x" * 1_000_000)
            await writer.drain()
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
            assert (await reader.readuntil(b"no")).endswith(b"no")
            if last:
                assert await reader.read() == b""
                return
            writer.write(HEAD + b"\r\n")
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"


async def test_a_discarded_body_has_a_deadline() -> None:
    async with served(refuses, header_timeout_s=0.2) as port:
        came = await port.answered(CHUNKED, b"2\r\nab\r\n")

    assert came.startswith(b"HTTP/1.1 200 ")
    assert came.count(b"HTTP/1.1 ") == 1


async def test_a_request_sent_with_the_end_of_a_discarded_body_gets_its_full_time() -> None:
    post = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"
    async with served(answers_late, keep_alive_s=0.1) as port:
        came = await port.answered(
            post, b"ab" + b"GET /late HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )

    assert came.endswith(b"late")


async def test_the_number_of_short_chunks_is_limited() -> None:
    short, long = b"1\r\nx\r\n", b"40\r\n" + b"x" * 64 + b"\r\n"
    async with served() as port:
        few = await port.answered(LAST_CHUNKED, short * (protocol.MAX_SHORT_CHUNKS - 1) + b"0\r\n\r\n")
        long_ones = await port.answered(LAST_CHUNKED, long * 3 * protocol.MAX_SHORT_CHUNKS + b"0\r\n\r\n")
        many = await port.answered(LAST_CHUNKED, short * protocol.MAX_SHORT_CHUNKS + b"0\r\n\r\n")

    assert few.startswith(b"HTTP/1.1 200 ")
    assert long_ones.startswith(b"HTTP/1.1 200 ")
    assert many.startswith(b"HTTP/1.1 400 ")


async def test_the_size_of_a_discarded_body_is_limited() -> None:
    chunk = b"F4240\r\n" + b"x" * 1_000_000 + b"\r\n"
    async with served(refuses) as port:
        _, writer = await port.connect()
        writer.write(CHUNKED)
        with suppress(ConnectionError):
            for _ in range(protocol.MAX_SKIPPED_BYTES // 1_000_000 + 20):
                writer.write(chunk)
                await writer.drain()
        await port.until_open(0)


async def test_discarding_a_body_is_rate_limited() -> None:
    began = asyncio.get_running_loop().time()
    size = protocol.SKIPPED_BYTES_PER_S // 2
    async with served(refuses) as port:
        head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode()

        came = await port.answered(head, b"x" * size + HEAD + b"Connection: close\r\n\r\n")

    assert came.count(b"HTTP/1.1 200 ") == 2
    assert asyncio.get_running_loop().time() - began > 0.4


async def test_bodies_of_several_connections_are_discarded_in_turn() -> None:
    now = asyncio.get_running_loop().time
    post = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"
    async with served(refuses) as port:
        port.table.skip_from = until = now() + 0.5

        came = await port.answered(post, b"ab", b"cd" + HEAD + b"Connection: close\r\n\r\n")

        assert now() >= until
        assert port.table.skip_from > until
    assert came.count(b"HTTP/1.1 200 ") == 2
