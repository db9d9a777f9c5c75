"""Waiting for a result while the client stays connected."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

from app.http.admission.bodies import ClientDisconnected

_T = TypeVar("_T")


async def while_connected(request: Request, work: Coroutine[Any, Any, _T]) -> _T:
    """Await the coroutine; raises `ClientDisconnected` and cancels it when the client disconnects."""
    waiting = asyncio.create_task(work)
    disconnecting = asyncio.create_task(_wait_for_disconnect(request))
    try:
        await asyncio.wait({waiting, disconnecting}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return waiting.result()
        raise ClientDisconnected
    finally:
        for task in (waiting, disconnecting):
            task.cancel()
        await asyncio.wait({waiting, disconnecting})


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
