import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from app.platform.server.in_process import InProcessCalls, NoResponse
from app.platform.server.loopback import AsgiApp, DropConnection, Receive, Scope, Send, wait_for_disconnect
from tests.unit.waiting import turns

START = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}


def chunk(body: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


@asynccontextmanager
async def calls_of(
    app: AsgiApp, *, headers_timeout_s: float = 60, idle_timeout_s: float = 60
) -> AsyncIterator[InProcessCalls]:
    calls = InProcessCalls(app, headers_timeout_s=headers_timeout_s, idle_timeout_s=idle_timeout_s)
    yield calls
    await calls.aclose()


async def read(calls: InProcessCalls) -> list[bytes]:
    async with calls.post("/", b"", []) as response:
        return [piece async for piece in response.chunks]


async def test_a_response_is_passed_on_while_it_is_sent() -> None:
    go_on = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert (scope["method"], scope["path"], scope["headers"]) == ("POST", "/a/b", [(b"x-odd", b"o")])
        assert (await receive())["body"] == b"hello"
        await send(START)
        await send(chunk(b"one"))
        await go_on.wait()
        await send(chunk(b"two", more=False))

    async with calls_of(app) as calls, calls.post("/a/b", b"hello", [(b"x-odd", b"o")]) as response:
        assert (response.status, response.headers) == (200, START["headers"])
        assert await anext(response.chunks) == b"one"
        go_on.set()
        assert [piece async for piece in response.chunks] == [b"two"]


@pytest.mark.parametrize("crash", [DropConnection(), ZeroDivisionError()])
async def test_a_response_that_is_cut_off_is_an_error(crash: Exception) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(START)
        await send(chunk(b"one"))
        raise crash

    async def nothing(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise crash

    async with calls_of(app) as calls:
        with pytest.raises(NoResponse, match="cut off"):
            await read(calls)
    async with calls_of(nothing) as calls:
        with pytest.raises(NoResponse, match="sent no response"):
            await read(calls)


async def test_the_application_sees_that_the_reader_leaves_and_closing_waits_for_it() -> None:
    left = asyncio.Event()

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send(START)
        await send(chunk(b"one"))
        await wait_for_disconnect(receive)
        await asyncio.sleep(0)
        left.set()

    async with calls_of(app) as calls:
        async with calls.post("/", b"", []) as response:
            assert await anext(response.chunks) == b"one"
        assert not left.is_set()
    assert left.is_set()


async def test_a_slow_reader_makes_the_application_wait_until_it_leaves() -> None:
    sent: list[int] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send(START)
        for number in range(1000):
            await send(chunk(b"x"))
            sent.append(number)

    async with calls_of(app) as calls, calls.post("/", b"", []):
        await turns(5000)
        assert 0 < len(sent) < 1000
    assert len(sent) == 1000


async def test_headers_must_come_in_time() -> None:
    async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
        await receive()
        await wait_for_disconnect(receive)

    async with calls_of(app, headers_timeout_s=0.01) as calls:
        with pytest.raises(NoResponse, match="in time"):
            await read(calls)


async def test_a_response_that_stands_still_is_given_up() -> None:
    left = asyncio.Event()

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await send(START)
        await send(chunk(b"one"))
        await receive()
        await wait_for_disconnect(receive)
        left.set()

    async with calls_of(app, idle_timeout_s=0.01) as calls:
        with pytest.raises(NoResponse, match="in time"):
            await read(calls)
        await left.wait()
