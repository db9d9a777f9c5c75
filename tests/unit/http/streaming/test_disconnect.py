import asyncio
from typing import Any

import pytest
from fastapi import Request

from app.errors import Unavailable
from app.http.admission.bodies import ClientDisconnected
from app.http.streaming.disconnect import while_connected


class Client:
    """A client that waits for a response and can disconnect."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.messages.put_nowait({"type": "http.request", "body": b"", "more_body": False})
        self.request = Request({"type": "http", "headers": []}, self.messages.get)

    def leave(self) -> None:
        self.messages.put_nowait({"type": "http.disconnect"})


class Work:
    """Work that ends on request, and records whether it was cancelled."""

    def __init__(self) -> None:
        self.begun, self.done = asyncio.Event(), asyncio.Event()
        self.abandoned = False

    async def result(self) -> int:
        self.begun.set()
        try:
            await self.done.wait()
        except asyncio.CancelledError:
            self.abandoned = True
            raise
        return 7


async def test_a_connected_client_gets_the_result() -> None:
    work = Work()
    work.done.set()

    assert await while_connected(Client().request, work.result()) == 7


async def test_a_disconnect_cancels_the_work() -> None:
    client, work = Client(), Work()
    client.leave()

    with pytest.raises(ClientDisconnected):
        await while_connected(client.request, work.result())
    assert work.abandoned


async def test_an_error_is_raised() -> None:
    async def fails() -> None:
        raise Unavailable

    with pytest.raises(Unavailable):
        await while_connected(Client().request, fails())


async def test_cancelling_the_wait_cancels_the_work() -> None:
    work = Work()
    waiting = asyncio.create_task(while_connected(Client().request, work.result()))
    await work.begun.wait()
    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert work.abandoned
