"""Requests to other machines: what a response, or this machine's environment, cannot make the server do."""

import gzip
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import httpx2
import pytest

from app.platform.outgoing import HttpSender, ResponseRefused
from app.platform.server.loopback import Receive, Scope, Send, serve_on_loopback

MAX_BYTES = 1000
GZIP = (b"content-encoding", b"gzip")

Header = tuple[bytes, bytes]


class Caller(HttpSender):
    """Calls one server."""

    def __init__(self, url: str) -> None:
        super().__init__(httpx2.Timeout(30))
        self._url = url

    async def read(self) -> httpx2.Response:
        """A whole response."""
        return await self._fetch(httpx2.Request("GET", self._url), max_bytes=MAX_BYTES)


@asynccontextmanager
async def calling(
    status: int = 200, headers: Iterable[Header] = (), body: bytes = b"whole"
) -> AsyncIterator[tuple[Caller, list[Scope]]]:
    """A caller of a server that always answers so, and the requests that arrive there."""
    arrived: list[Scope] = []

    async def answer(scope: Scope, _receive: Receive, send: Send) -> None:
        arrived.append(scope)
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})
        await send({"type": "http.response.body", "body": body})

    async with serve_on_loopback(answer) as url, Caller(url) as caller:
        yield caller, arrived


async def test_a_response_is_read_whole() -> None:
    async with calling() as (caller, arrived):
        response = await caller.read()

    assert (response.status_code, response.content) == (200, b"whole")
    assert dict(arrived[0]["headers"])[b"accept-encoding"] == b"identity"


@pytest.mark.parametrize(
    ("headers", "body", "reason"),
    [
        pytest.param([], b"x" * (MAX_BYTES + 1), "too large", id="too large"),
        pytest.param([GZIP], gzip.compress(bytes(MAX_BYTES)), "compressed", id="compressed"),
    ],
)
async def test_a_response_is_refused(headers: list[Header], body: bytes, reason: str) -> None:
    async with calling(headers=headers, body=body) as (caller, _):
        with pytest.raises(ResponseRefused, match=reason):
            await caller.read()


async def test_the_body_of_an_error_is_not_read() -> None:
    async with calling(status=503, headers=[GZIP], body=b"x" * (MAX_BYTES + 1)) as (caller, _):
        response = await caller.read()

    assert (response.status_code, response.content) == (503, b"")


async def test_a_redirect_is_not_followed_and_a_cookie_is_not_sent_back() -> None:
    async with calling(302, [(b"location", b"/elsewhere"), (b"set-cookie", b"a=b")]) as (caller, arrived):
        statuses = [(await caller.read()).status_code for _ in range(2)]

    assert statuses == [302, 302]
    assert [scope["path"] for scope in arrived] == ["/", "/"]
    assert b"cookie" not in dict(arrived[1]["headers"])


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    async with calling() as (caller, arrived):
        await caller.read()

    assert len(arrived) == 1
