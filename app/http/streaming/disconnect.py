"""What happens when a client disconnects that waits for a result."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

from app.http.admission.bodies import ClientDisconnected
from app.platform.background import first_of

_T = TypeVar("_T")


async def while_connected(request: Request, work: Coroutine[Any, Any, _T]) -> _T:
    """Await the coroutine; raises `ClientDisconnected` and cancels it when the client disconnects."""
    first = await first_of(work, _wait_for_disconnect(request))
    if first is None or first.index > 0:
        raise ClientDisconnected
    result: _T = first.result
    return result


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
