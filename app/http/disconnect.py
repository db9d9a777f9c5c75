"""Waiting for somebody who may leave."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

from app.http.admission.bodies import ClientDisconnected

_T = TypeVar("_T")


async def while_connected(request: Request, answer: Coroutine[Any, Any, _T]) -> _T:
    """What is waited for; raises `ClientDisconnected` once nobody waits for it any more."""
    waiting = asyncio.create_task(answer)
    leaving = asyncio.create_task(_left(request))
    try:
        await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return waiting.result()
        raise ClientDisconnected
    finally:
        for task in (waiting, leaving):
            task.cancel()
        await asyncio.wait({waiting, leaving})


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
