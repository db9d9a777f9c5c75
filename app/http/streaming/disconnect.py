"""What happens when a client disconnects: its wait for a result ends, and its run may."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

from app.graphs.spec import GraphSpec
from app.http.admission.bodies import ClientDisconnected
from app.platform.background import first_of
from app.requests.runs import OnDisconnect

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


def on_disconnect(
    requested: OnDisconnect | None, spec: GraphSpec, default: OnDisconnect
) -> OnDisconnect | None:
    """What a run of a foreign wire does: as requested, or its graph's default, or the server's.

    None for `continue`, which runs do without the field.
    """
    chosen = requested or spec.on_disconnect or default
    return None if chosen == "continue" else chosen
