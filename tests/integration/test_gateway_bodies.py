"""Whoever reaches the gateway's port, with or without a run's token."""

import asyncio
import re
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from app.gateway.bodies import BODY_BYTES, RUN_BYTES, BodyRefused, RequestBodies
from app.platform.server.loopback import Receive, Scope, Send, serve_on_loopback
from app.simulator.script import Hold, Reply, Text
from tests.e2e.stories import until
from tests.integration.gateway_seam import MESSAGE_REQUEST, Seam, the_seam
from tests.patience import PATIENCE_S

MB = 1024 * 1024
PIECE = b"x" * MB


def head(path: str, *, length: int) -> bytes:
    return f"POST {path} HTTP/1.1\r\nhost: gateway\r\ncontent-length: {length}\r\n\r\n".encode()


async def connect(seam: Seam) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    port = urlsplit(seam.channel.url).port
    return await asyncio.open_connection("127.0.0.1", port)


async def status_of(reader: asyncio.StreamReader) -> int:
    async with asyncio.timeout(PATIENCE_S):
        line = await reader.readline()
    found = re.match(rb"HTTP/1.1 (\d+)", line)
    assert found is not None, line
    return int(found[1])


@pytest.mark.parametrize(("path", "status"), [("/nobody/v1/messages", 403), ("/nobody/v1/other", 404)])
async def test_without_a_token_nothing_of_a_body_is_read(path: str, status: int) -> None:
    async with the_seam(lambda _: Reply([Text("ok")])) as seam:
        before = psutil.Process().memory_info().rss
        connections = [await connect(seam) for _ in range(4)]
        for reader, writer in connections:
            writer.write(head(path, length=100 * MB))
            # Answered before any of it is there.
            assert await status_of(reader) == status
        for _ in range(50):
            for _, writer in connections:
                writer.write(PIECE)
                await asyncio.wait_for(writer.drain(), PATIENCE_S)
        grown = psutil.Process().memory_info().rss - before
        for _, writer in connections:
            writer.close()

    assert grown < 30 * MB


async def test_a_body_that_is_too_large_is_refused_by_its_length_or_where_it_becomes_so() -> None:
    async with the_seam(lambda _: Reply([Text("ok")])) as seam:
        path = urlsplit(seam.channel.url).path + "/v1/messages"
        reader, writer = await connect(seam)
        writer.write(head(path, length=BODY_BYTES + 1))
        announced = await status_of(reader)
        writer.close()

        async def endless() -> Any:
            for _ in range(BODY_BYTES // MB + 1):
                yield PIECE

        chunked = await seam.agent.post(f"{seam.channel.url}/v1/messages", content=endless())

    assert (announced, chunked.status_code) == (413, 413)
    assert chunked.json()["error"]["type"] == "request_too_large"
    assert chunked.headers["x-should-retry"] == "false"


async def test_a_prompt_of_too_many_parts_is_refused_and_not_read() -> None:
    async with the_seam(lambda _: Reply([Text("ok")])) as seam:
        answer = await seam.agent.post(f"{seam.channel.url}/v1/messages", content=b"[" + b"[]," * MB + b"[]]")

    assert (answer.status_code, seam.simulator.requests) == (413, [])


async def test_what_a_run_holds_at_a_time_is_bounded_and_given_back() -> None:
    hold = Hold(index=0)
    async with the_seam(lambda _: Reply([Text("ok")], hold=hold)) as seam:
        large = {**MESSAGE_REQUEST, "stream": True, "metadata": "x" * (30 * MB)}
        pending = [asyncio.create_task(seam.send_message(large)) for _ in range(2)]
        await until(lambda: len(seam.simulator.requests) == 2)

        refused = await seam.send_message(large)
        hold.until.set()
        answers = await asyncio.gather(*pending)
        again = await seam.send_message(large)

    assert (refused.status_code, refused.json()["error"]["type"]) == (529, "overloaded_error")
    assert [answer.status_code for answer in (*answers, again)] == [200, 200, 200]


async def read(
    bodies: RequestBodies, owner: str, *parts: dict[str, Any], announced: int | None = None
) -> bytes:
    waiting = list(parts)

    async def receive() -> dict[str, Any]:
        if not waiting:
            await asyncio.Event().wait()
        return waiting.pop(0)

    headers = [] if announced is None else [(b"content-length", b"%d" % announced)]
    async with bodies.reading(owner, {"headers": headers}, receive) as body:
        return body


def a_part(body: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


@pytest.mark.parametrize(("end", "status"), [([], "408"), ([{"type": "http.disconnect"}], "400")])
async def test_half_a_body_is_none(end: list[dict[str, Any]], status: str) -> None:
    bodies = RequestBodies(within_s=0.05)

    with pytest.raises(BodyRefused, match=status):
        await read(bodies, "run", a_part(b"half"), *end)
    assert bodies.held_bytes == 0


async def test_a_body_in_parts_is_whole_and_counted_while_it_is_needed() -> None:
    bodies = RequestBodies()

    assert await read(bodies, "run", a_part(b"one "), a_part(b"two", more=False), announced=7) == b"one two"
    assert bodies.held_bytes == 0


async def test_one_run_takes_no_more_than_its_share() -> None:
    bodies = RequestBodies()
    half = a_part(b"x" * (RUN_BYTES // 2), more=False)

    async def receive() -> dict[str, Any]:
        return half

    async with (
        bodies.reading("run", {"headers": []}, receive),
        bodies.reading("run", {"headers": []}, receive),
    ):
        with pytest.raises(BodyRefused, match="529"):
            await read(bodies, "run", a_part(b"x", more=False))
        assert await read(bodies, "other", a_part(b"x", more=False)) == b"x"


async def test_connections_to_a_loopback_port_are_bounded() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with (
        serve_on_loopback(app, connections=20) as url,
        httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as agent,
    ):
        idle = [await asyncio.open_connection("127.0.0.1", urlsplit(url).port) for _ in range(40)]
        answer = await agent.get(url)
        async with asyncio.timeout(PATIENCE_S):
            # Whoever has waited longest makes room.
            for reader, _ in idle[:20]:
                with suppress(ConnectionResetError):
                    assert await reader.read() == b""
        open_ones = [reader for reader, _ in idle[21:] if not reader.at_eof()]
        for _, writer in idle:
            writer.close()

    assert answer.status_code == 200
    assert len(open_ones) == 19
