"""A provider, or somebody in its place, that answers to do harm."""

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import httpx
import pytest

from app.gateway.answer import MAX_JSON_BYTES
from app.gateway.call import ESTIMATED
from app.gateway.upstream import Upstream
from app.platform.server.loopback import DropConnection, Receive, Scope, Send, read_body, serve_on_loopback
from app.simulator import wire
from app.simulator.script import Reply, Text
from tests.integration.gateway_seam import MODEL, STREAMED, WORDS, Seam, gateway_to
from tests.integration.test_gateway_cut_short import a_start
from tests.patience import PATIENCE_S

JSON = (b"content-type", b"application/json")


@asynccontextmanager
async def answering(status: int, headers: list[tuple[bytes, bytes]], *pieces: bytes) -> AsyncIterator[Seam]:
    """A provider that answers everything with this."""

    async def answer(_scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async with serve_on_loopback(answer) as url, gateway_to(url) as seam:
        yield seam


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        pytest.param(307, [(b"location", b"http://127.0.0.1:9/")], b"", id="a redirect"),
        pytest.param(200, [JSON, (b"content-encoding", b"br")], b"x" * 99, id="packed"),
        pytest.param(400, [JSON, (b"content-encoding", b"br")], b"x" * 99, id="a packed error"),
    ],
)
async def test_an_answer_that_would_lead_the_agent_on_is_kept_from_it(
    status: int, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    async with answering(status, headers, body) as seam:
        response = await seam.send_message()
        again = await seam.send_message()

    assert (response.status_code, response.headers["x-should-retry"]) == (502, "false")
    assert not {"location", "content-encoding"} & set(response.headers)
    # Another try would be answered alike.
    assert again.status_code == 402
    assert [message.message_id for message in seam.noted.closed] == ["unanswered-1"] * (status == 200)


async def test_an_answer_in_one_piece_is_no_longer_than_a_message() -> None:
    async with answering(200, [JSON], b" " * MAX_JSON_BYTES, b"{}") as seam:
        with pytest.raises(Exception, match="peer closed connection"):
            await seam.send_message()


async def test_countless_small_pieces_keep_nobody_waiting() -> None:
    """Each is there already when the one before it has been passed on."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    start = a_start()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}]")
        writer.write(head + b"%x\r\n%b\r\n" % (len(start), start) + b"1\r\nx\r\n" * 60_000 + b"0\r\n\r\n")
        await writer.drain()
        writer.close()

    worst = 0.0

    async def watch() -> None:
        nonlocal worst
        while True:
            # The loop's own CPU time: other programs do not count.
            before = time.thread_time()
            await asyncio.sleep(0)
            worst = max(worst, time.thread_time() - before)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, gateway_to(f"http://127.0.0.1:{port}") as seam:
        reader, writer = await asyncio.open_connection(*_place_of(seam), limit=2**24)
        writer.write(_request(seam))
        gc.collect()
        watching = asyncio.create_task(watch())
        async with asyncio.timeout(PATIENCE_S):
            await reader.read()
        watching.cancel()
        writer.close()

    assert worst < 0.15


def _place_of(seam: Seam) -> tuple[str, int]:
    url = urlsplit(seam.channel.url)
    assert url.hostname is not None
    assert url.port is not None
    return url.hostname, url.port


def _request(seam: Seam) -> bytes:
    body = json.dumps(STREAMED).encode()
    path = urlsplit(seam.channel.url).path
    return (
        f"POST {path}/v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    )


@pytest.mark.parametrize(
    "body", [b'{"input_tokens": 1e400}', b'{"input_tokens": NaN}', b'{"input_tokens": true}', b"[" * 60_000]
)
async def test_a_prompt_that_cannot_be_counted_is_charged_as_estimated(body: bytes) -> None:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)
        await send({"type": "http.response.start", "status": 200, "headers": [JSON]})
        if not scope["path"].endswith("/count_tokens"):
            raise DropConnection
        await send({"type": "http.response.body", "body": body})

    async with serve_on_loopback(answer) as url, gateway_to(url) as seam:
        with pytest.raises(httpx.RemoteProtocolError):
            await seam.send_message()
        async with Upstream(base_url=url, api_key="k") as provider:
            counted = await provider.count("m", "text")

    assert counted is None
    assert [(each.message_id, each.note) for each in seam.noted.closed] == [("unanswered-1", ESTIMATED)]


async def test_a_length_beside_chunks_does_not_cut_the_answer_off() -> None:
    stream = b"".join(map(wire.sse, wire.events(Reply([Text(WORDS)]), model=MODEL)))
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(stream), stream))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, gateway_to(f"http://127.0.0.1:{port}") as seam:
        response = await seam.send_message()

    assert response.content == stream
    assert seam.noted.last.complete
