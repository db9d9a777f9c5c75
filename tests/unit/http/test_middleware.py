import json
from types import SimpleNamespace

import httpx
import pytest
import structlog
from structlog.testing import capture_logs

from app.errors import AppError, Gone, Unavailable
from app.http.middleware import (
    REQUEST_ID,
    AsgiApp,
    CompressedJson,
    HeadRequests,
    Message,
    Receive,
    RequestIds,
    Scope,
    SecurityHeaders,
    Send,
    UnexpectedErrors,
    UnreadBodies,
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


async def respond_with_id(scope: Scope, _receive: Receive, send: Send) -> None:
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
async def test_a_valid_request_id_is_kept(given: str) -> None:
    async with client_of(RequestIds(respond_with_id)) as client:
        response = await client.get("/", headers={"X-Request-ID": given})

    assert response.headers.get_list("x-request-id") == [given]
    assert response.text == given
    assert "request_id" not in structlog.contextvars.get_contextvars()


@pytest.mark.parametrize("given", ["", " ", "a b", "a" * 129, "<script>", "a\tb", "é"])
async def test_an_invalid_request_id_is_replaced(given: str) -> None:
    sent = [(b"X-Request-ID", given.encode())]
    async with client_of(RequestIds(respond_with_id)) as client:
        first = await client.get("/", headers=sent)
        second = await client.get("/", headers=sent)

    assert given != first.text != second.text
    assert first.headers["x-request-id"] == first.text


async def test_an_unexpected_error_is_a_generic_problem_and_is_logged() -> None:
    with capture_logs() as logged:
        async with client_of(RequestIds(UnexpectedErrors(fails))) as client:
            response = await client.get("/somewhere", headers={"X-Request-ID": "abc-1"})

    assert (response.status_code, response.json()["code"]) == (500, "internal")
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["x-request-id"] == "abc-1"
    assert SECRET not in response.text
    (line,) = logged
    assert (line["route"], line["log_level"], line["exc_info"]) == (None, "error", True)


@pytest.mark.parametrize(
    ("cause", "level"),
    [(Unavailable("The database is away."), "error"), (Gone("It was deleted."), "info")],
    ids=["a failure", "a deletion"],
)
async def test_an_error_leaves_a_started_response_incomplete(cause: AppError, level: str) -> None:
    sent: list[Message] = []

    async def breaks_off(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        message = "response already started"
        raise RuntimeError(message) from cause

    with capture_logs() as logged:
        scope: Scope = {"type": "http", "path": "/x/ann", "route": SimpleNamespace(path="/x/{id}")}
        await UnexpectedErrors(breaks_off)(scope, nothing, into(sent))

    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert logged == [
        {"event": "http.response_truncated", "route": "/x/{id}", "reason": cause.detail, "log_level": level}
    ]


async def refuses(_scope: Scope, _receive: Receive, send: Send) -> None:
    await answer(send, b"no")


async def test_an_unread_body_after_expect_closes_the_connection() -> None:
    sent: list[Message] = []

    await UnreadBodies(refuses)(a_post(expect="100-continue"), nothing, into(sent))

    assert (b"connection", b"close") in sent[0]["headers"]


async def test_an_unread_body_is_skipped_by_the_protocol() -> None:
    sent: list[Message] = []

    await UnreadBodies(refuses)(a_post(**{"content-length": "20000000"}), nothing, into(sent))

    assert (b"connection", b"close") not in sent[0]["headers"]


async def test_a_read_or_missing_body_keeps_the_connection() -> None:
    async with client_of(UnreadBodies(echoes)) as client:
        read = await client.post("/", content=b"body")
        empty = await client.post("/", content=b"")
        none = await client.get("/")

    assert [each.headers.get("connection") for each in (read, empty, none)] == [None] * 3


async def test_responses_have_security_headers_unless_they_set_their_own() -> None:
    async def respond_otherwise(_scope: Scope, _receive: Receive, send: Send) -> None:
        headers = [(b"Cache-Control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async with client_of(SecurityHeaders(refuses)) as client:
        usual = await client.get("/")
    async with client_of(SecurityHeaders(respond_otherwise)) as client:
        other = await client.get("/")

    assert (usual.headers["cache-control"], usual.headers["x-content-type-options"]) == (
        "no-store",
        "nosniff",
    )
    assert (other.headers.get_list("cache-control"), other.headers["x-content-type-options"]) == (
        ["no-cache"],
        "nosniff",
    )


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

    async with client_of(HeadRequests(streams)) as client:
        response = await client.head("/")

    assert (response.status_code, response.headers["x-kind"], response.content) == (200, "stream", b"")
    assert closed


async def test_a_head_response_is_no_truncated_one() -> None:
    with capture_logs() as logged:
        async with client_of(HeadRequests(UnexpectedErrors(echoes))) as client:
            response = await client.head("/")

    assert (response.status_code, logged) == (200, [])


async def test_other_methods_keep_their_body() -> None:
    async with client_of(HeadRequests(echoes)) as client:
        assert (await client.post("/", content=b"kept")).content == b"kept"


def into(sent: list[Message]) -> Send:
    async def send(message: Message) -> None:
        sent.append(message)

    return send


async def nothing() -> Message:
    message = "nothing may be read"
    raise AssertionError(message)


def a_post(**headers: str) -> Scope:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "method": "POST", "path": "/", "headers": raw}


LONG = json.dumps(["word"] * 20_000).encode()


def answers_with(body: bytes, *, kind: str = "application/json", parts: int = 1, **headers: str) -> AsgiApp:
    sent = {"content-type": kind, "content-length": str(len(body)), **headers}

    async def answers(_scope: Scope, _receive: Receive, send: Send) -> None:
        encoded = [(name.replace("_", "-").encode(), value.encode()) for name, value in sent.items()]
        await send({"type": "http.response.start", "status": 200, "headers": encoded})
        size = len(body) // parts
        pieces = [body[at : at + size] for at in range(0, len(body), size)]
        for number, piece in enumerate(pieces, start=1):
            await send({"type": "http.response.body", "body": piece, "more_body": number < len(pieces)})

    return answers


@pytest.mark.parametrize("body", [LONG[:2000], LONG], ids=["short", "long"])
async def test_json_is_compressed(body: bytes) -> None:
    async with client_of(CompressedJson(answers_with(body))) as client:
        response = await client.get("/", headers={"Sec-Fetch-Site": "same-origin"})
        others = [
            await client.get("/", headers={"Accept-Encoding": encodings})
            for encodings in ("identity", "gzip;q=0", "br, gzip ; q=0.00, identity", "notgzip")
        ]

    assert {each.content for each in (response, *others)} == {body}
    assert response.headers["content-encoding"] == "gzip"
    assert int(response.headers["content-length"]) < len(body) / 10
    assert response.headers["vary"] == "Accept-Encoding"
    assert not any("content-encoding" in each.headers for each in others)


@pytest.mark.parametrize(
    ("app", "method", "site"),
    [
        (answers_with(LONG, kind="text/event-stream"), "GET", "same-origin"),
        (answers_with(LONG, parts=2), "GET", "same-origin"),
        (answers_with(LONG[:100]), "GET", "same-origin"),
        (answers_with(LONG, content_encoding="br"), "GET", "same-origin"),
        (answers_with(LONG), "POST", "same-origin"),
        (answers_with(LONG), "GET", "same-site"),
        (answers_with(LONG), "GET", "cross-site"),
    ],
    ids=["a stream", "in pieces", "short", "already", "of a POST", "of a subdomain", "of another site"],
)
async def test_what_is_not_compressed(app: AsgiApp, method: str, site: str) -> None:
    sent: list[Message] = []
    headers = [(b"accept-encoding", b"gzip"), (b"sec-fetch-site", site.encode())]

    await CompressedJson(app)({"type": "http", "method": method, "headers": headers}, nothing, into(sent))

    assert (b"content-encoding", b"gzip") not in sent[0]["headers"]
    assert LONG.startswith(b"".join(message["body"] for message in sent[1:]))
