from collections.abc import AsyncIterator

import httpx
import pytest
import structlog
from structlog.testing import capture_logs

from app.errors import Unavailable
from app.http.middleware import (
    REQUEST_ID,
    AsgiApp,
    BodyLimit,
    Heads,
    Message,
    Receive,
    RequestIds,
    Scope,
    Send,
    UnexpectedErrors,
)

SECRET = "sk-secret"


def client_of(app: AsgiApp) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=app)
    return httpx.AsyncClient(transport=transport, base_url="http://test")


async def answer(send: Send, *chunks: bytes) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for chunk in chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def says_its_id(scope: Scope, _receive: Receive, send: Send) -> None:
    bound = structlog.contextvars.get_contextvars()["request_id"]
    assert scope["state"][REQUEST_ID] == bound
    await answer(send, bound.encode())


async def echoes(_scope: Scope, receive: Receive, send: Send) -> None:
    body, more = b"", True
    while more:
        message = await receive()
        body += message["body"]
        more = message["more_body"]
    await answer(send, body)


async def fails(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise RuntimeError(SECRET)


@pytest.mark.parametrize("given", ["abc-1", "a" * 128, "00-4bf9/2+f=:._"])
async def test_a_request_id_is_taken_over(given: str) -> None:
    async with client_of(RequestIds(says_its_id)) as client:
        response = await client.get("/", headers={"X-Request-ID": given})

    assert response.headers.get_list("x-request-id") == [given]
    assert response.text == given
    assert "request_id" not in structlog.contextvars.get_contextvars()


@pytest.mark.parametrize("given", ["", " ", "a b", "a" * 129, "<script>", "a\tb", "é"])
async def test_a_request_id_that_is_none_is_replaced(given: str) -> None:
    sent = [(b"X-Request-ID", given.encode())]
    async with client_of(RequestIds(says_its_id)) as client:
        first = await client.get("/", headers=sent)
        second = await client.get("/", headers=sent)

    assert given != first.text != second.text
    assert first.headers["x-request-id"] == first.text


async def test_what_nobody_foresaw_is_a_bare_problem_with_a_logged_reason() -> None:
    with capture_logs() as logged:
        async with client_of(RequestIds(UnexpectedErrors(fails))) as client:
            response = await client.get("/somewhere", headers={"X-Request-ID": "abc-1"})

    assert (response.status_code, response.json()["code"]) == (500, "internal")
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["x-request-id"] == "abc-1"
    assert SECRET not in response.text
    (line,) = logged
    assert (line["path"], line["log_level"], line["exc_info"]) == ("/somewhere", "error", True)


async def test_a_response_under_way_is_left_unfinished() -> None:
    sent: list[Message] = []

    async def breaks_off(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        message = "response already started"
        raise RuntimeError(message) from Unavailable("The database is away.")

    with capture_logs() as logged:
        await UnexpectedErrors(breaks_off)({"type": "http", "path": "/x"}, nothing, into(sent))

    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert logged == [
        {
            "event": "a response was cut short",
            "path": "/x",
            "reason": "The database is away.",
            "log_level": "error",
        }
    ]


@pytest.mark.parametrize("size", [0, 1, 99, 100])
async def test_a_body_within_the_limit_arrives_whole(size: int) -> None:
    async with client_of(BodyLimit(echoes, max_bytes=100)) as client:
        announced = await client.post("/", content=b"x" * size)
        chunked = await client.post("/", content=one_by_one(size))

    assert announced.content == chunked.content == b"x" * size


async def test_a_body_over_the_limit_is_refused_announced_or_not() -> None:
    async with client_of(BodyLimit(fails, max_bytes=100)) as client:
        announced = await client.post("/", content=b"x" * 101)
        chunked = await client.post("/", content=one_by_one(101))

    for response in (announced, chunked):
        assert (response.status_code, response.json()["code"]) == (413, "payload_too_large")
        assert "100 bytes" in response.json()["detail"]


async def test_an_announced_body_is_refused_unread() -> None:
    sent: list[Message] = []

    await BodyLimit(fails, max_bytes=100)(a_post(announced=101), nothing, into(sent))

    assert sent[0]["status"] == 413


async def test_half_a_request_is_none() -> None:
    sent: list[Message] = []
    messages: list[Message] = [
        {"type": "http.disconnect"},
        {"type": "http.request", "body": b"{}", "more_body": True},
    ]

    async def receive() -> Message:
        return messages.pop()

    await BodyLimit(fails, max_bytes=100)(a_post(announced=3), receive, into(sent))

    assert sent == []


async def test_head_is_get_without_the_body_even_of_a_stream_without_end() -> None:
    closed = False

    async def streams(scope: Scope, _receive: Receive, send: Send) -> None:
        nonlocal closed
        assert scope["method"] == "GET"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-kind", b"stream")]})
        try:
            while True:
                await send({"type": "http.response.body", "body": b"more", "more_body": True})
        finally:
            closed = True

    async with client_of(Heads(streams)) as client:
        response = await client.head("/")

    assert (response.status_code, response.headers["x-kind"], response.content) == (200, "stream", b"")
    assert closed


async def test_other_methods_keep_their_body() -> None:
    async with client_of(Heads(echoes)) as client:
        assert (await client.post("/", content=b"kept")).content == b"kept"


def into(sent: list[Message]) -> Send:
    async def send(message: Message) -> None:
        sent.append(message)

    return send


async def nothing() -> Message:
    message = "nothing may be read"
    raise AssertionError(message)


async def one_by_one(size: int) -> AsyncIterator[bytes]:
    for _ in range(size):
        yield b"x"


def a_post(*, announced: int) -> Scope:
    headers = [(b"content-length", str(announced).encode())]
    return {"type": "http", "method": "POST", "path": "/", "headers": headers}
