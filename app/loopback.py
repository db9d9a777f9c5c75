"""An ASGI app on a free loopback port, inside this process."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import uvicorn

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class Dropped(Exception):
    """Raised by an app to drop its connection in the middle of an answer, on purpose."""


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], Dropped))


# uvicorn writes a traceback for every connection that is dropped, and has no other way to drop one.
logging.getLogger("uvicorn.error").addFilter(_is_worth_a_line)


@asynccontextmanager
async def listening(app: AsgiApp) -> AsyncIterator[str]:
    """Serve while the body runs; yields the URL. Whoever still reads at the end is cut off."""
    config = uvicorn.Config(
        app,
        interface="asgi3",
        port=0,
        lifespan="off",
        log_config=None,
        access_log=False,
        ws="none",
        server_header=False,
        date_header=False,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    # Not `serve`: that would take over the signals of the process we run in.
    task = asyncio.create_task(server._serve())  # noqa: SLF001
    try:
        while not (server.started or task.done()):
            await asyncio.sleep(0.005)
        host, port = server.servers[0].sockets[0].getsockname()[:2]
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        await task


async def whole_body(receive: Receive) -> bytes:
    """The request's body; what came until the client left, when it did."""
    parts: list[bytes] = []
    more = True
    while more:
        part = await receive()
        parts.append(part.get("body", b""))
        more = part.get("more_body", False)
    return b"".join(parts)


async def hung_up(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
