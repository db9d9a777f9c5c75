import asyncio
from typing import Any

import httpx2
import pytest

from app.platform.server.in_process import InProcessTransport
from app.platform.server.loopback import AsgiApp, DropConnection, Receive, Scope, Send, wait_for_disconnect
from tests.unit.waiting import turns

START = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}


def chunk(body: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


def a_client(app: AsgiApp, *, idle_timeout_s: float = 60, **options: Any) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        transport=InProcessTransport(app, idle_timeout_s=idle_timeout_s), base_url="http://app", **options
    )


async def test_a_response_is_passed_on_while_it_is_sent() -> None:
    go_on = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert (scope["method"], scope["path"], scope["query_string"]) == ("POST", "/a/b", b"beta=true")
        assert (await receive())["body"] == b"hello"
        await send(START)
        await send(chunk(b"one"))
        await go_on.wait()
        await send(chunk(b"two", more=False))

    async with a_client(app) as client, client.stream("POST", "/a/b?beta=true", content=b"hello") as response:
        pieces = response.aiter_bytes()
        assert await anext(pieces) == b"one"
        go_on.set()
        assert [piece async for piece in pieces] == [b"two"]


async def test_only_headers_that_matter_are_passed_on() -> None:
    found: list[dict[bytes, bytes]] = []

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        found.append(dict(scope["headers"]))
        await send(START)
        await send(chunk(b"", more=False))

    async with a_client(app) as client:
        headers = {"x-api-key": "k", "authorization": "a", "x-odd": "o", "Anthropic-Beta": "b"}
        await client.post("/", headers=headers)

    assert found[0][b"anthropic-beta"] == b"b"
    assert found[0].keys() <= {b"accept", b"user-agent", b"anthropic-beta", b"content-type"}


@pytest.mark.parametrize("crash", [DropConnection(), ZeroDivisionError()])
async def test_a_response_that_is_cut_off_is_an_error(crash: Exception) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(START)
        await send(chunk(b"one"))
        raise crash

    async def nothing(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise crash

    async with a_client(app) as client:
        with pytest.raises(httpx2.ReadError):
            await client.get("/")
    async with a_client(nothing) as client:
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.get("/")


async def test_the_application_sees_that_the_reader_leaves_and_closing_waits_for_it() -> None:
    left = asyncio.Event()

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send(START)
        await send(chunk(b"one"))
        await wait_for_disconnect(receive)
        await asyncio.sleep(0)
        left.set()

    async with a_client(app) as client:
        async with client.stream("GET", "/") as response:
            assert await anext(response.aiter_bytes()) == b"one"
        assert not left.is_set()
    assert left.is_set()


async def test_a_slow_reader_makes_the_application_wait_until_it_leaves() -> None:
    sent: list[int] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(START)
        for number in range(1000):
            await send(chunk(b"x"))
            sent.append(number)

    async with a_client(app) as client, client.stream("GET", "/"):
        await turns(5000)
        assert 0 < len(sent) < 1000
    assert len(sent) == 1000


async def test_headers_must_come_in_time() -> None:
    async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
        await receive()
        await wait_for_disconnect(receive)

    async with a_client(app, timeout=0.01) as client:
        with pytest.raises(httpx2.ReadTimeout):
            await client.get("/")


async def test_a_response_that_stands_still_is_given_up() -> None:
    left = asyncio.Event()

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await send(START)
        await send(chunk(b"one"))
        await receive()
        await wait_for_disconnect(receive)
        left.set()

    async with a_client(app, idle_timeout_s=0.01) as client:
        with pytest.raises(httpx2.ReadTimeout):
            await client.post("/", content=b"hello")
        await left.wait()
