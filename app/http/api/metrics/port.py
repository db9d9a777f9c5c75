"""The metrics port: `GET /metrics` without a key, and nothing else."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

from app.platform.metrics.exposition import CONTENT_TYPE, Exposition
from app.platform.server.loopback import AsgiApp, Receive, Scope, Send

PATH: Final = "/metrics"
_READING: Final = ("GET", "HEAD")
_SAFE: Final = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]


def metrics_app(exposition: Exposition) -> AsgiApp:
    """An ASGI application that shows these metrics."""

    async def handle(scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["path"] != PATH:
            await _send(send, HTTPStatus.NOT_FOUND)
        elif scope["method"] not in _READING:
            await _send(send, HTTPStatus.METHOD_NOT_ALLOWED, headers=[(b"allow", b"GET, HEAD")])
        else:
            body, of_type = await exposition.text(), (b"content-type", CONTENT_TYPE.encode())
            await _send(send, HTTPStatus.OK, body, headers=[of_type])

    return handle


async def _send(
    send: Send, status: HTTPStatus, body: bytes = b"", *, headers: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *_SAFE, length]})
    await send({"type": "http.response.body", "body": body})
