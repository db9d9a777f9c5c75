"""Serves an ASGI app beside the API: on a free loopback port, or on a socket."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias, cast

import uvicorn
from uvicorn.server import ServerState

from app.platform.server.protocol import ConnectionLimits, ConnectionTable

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


_GRACE_S = 1.0


class DropConnection(Exception):
    """Raised by an app to close its connection in the middle of a response, on purpose."""


def _is_not_dropped(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], DropConnection))


# Raising is the only way to close a connection; uvicorn would log a traceback for each.
logging.getLogger("uvicorn.error").addFilter(_is_not_dropped)


CONNECTIONS: Final = 512
"""At the same time; idle connections are closed to accept others. Each agent opens a few."""

_HEADER_TIMEOUT_S = 10.0
_WRITE_TIMEOUT_S = 300.0
"""How long an agent may read nothing of a response: it may be stopped or wait for the disk."""


@asynccontextmanager
async def serve_on_loopback(app: AsgiApp, *, connections: int = CONNECTIONS) -> AsyncIterator[str]:
    """Serve on a free port while the body runs; yields the URL. Open connections are closed at the end."""
    async with _serving(app, connections, host="127.0.0.1", port=0) as server:
        host, port = server.sockets[0].getsockname()[:2]
        yield f"http://{host}:{port}"


@asynccontextmanager
async def serve_on_socket(app: AsgiApp, sock: socket.socket, *, connections: int) -> AsyncIterator[None]:
    """Serve while the body runs; the socket and all connections are closed at the end."""
    async with _serving(app, connections, sock=sock):
        yield


@asynccontextmanager
async def _serving(app: AsgiApp, connections: int, **where: Any) -> AsyncIterator[asyncio.Server]:
    """`where`: what `create_server` needs.

    Uses uvicorn's protocol without its server, which takes over signals and polls ten times a second.
    """
    config = uvicorn.Config(
        app,
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        ws="none",
        server_header=False,
        date_header=False,
        timeout_keep_alive=60,
    )
    table = ConnectionTable(
        ConnectionLimits(
            connections=connections,
            per_address=connections,
            header_timeout_s=_HEADER_TIMEOUT_S,
            write_timeout_s=_WRITE_TIMEOUT_S,
            # Agents all have the same address, and so have scrapers behind a network address translation.
            is_proxy=lambda _: True,
        )
    )
    # uvicorn accepts any factory of a protocol, but its type is that of a class.
    config.http = cast("type[asyncio.Protocol]", table.protocol)
    config.load()
    state = ServerState()

    def connected() -> asyncio.Protocol:
        return config.http_protocol_class(config=config, server_state=state, app_state={})  # type: ignore[call-arg]

    server = await asyncio.get_running_loop().create_server(connected, **where)
    try:
        yield server
    finally:
        server.close()
        for connection in list(state.connections):
            connection.shutdown()
        await _finish_requests(state.tasks)
        await server.wait_closed()


async def _finish_requests(answers: set[asyncio.Task[None]]) -> None:
    """Wait shortly for active requests, then cancel them."""
    if answers:
        await asyncio.wait(answers, timeout=_GRACE_S)
    for answer in (unfinished := list(answers)):
        answer.cancel()
    if unfinished:
        await asyncio.wait(unfinished)


async def read_body(receive: Receive) -> bytes:
    """The request's body; incomplete if the client disconnected."""
    parts: list[bytes] = []
    more = True
    while more:
        part = await receive()
        parts.append(part.get("body", b""))
        more = part.get("more_body", False)
    return b"".join(parts)


async def wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
