"""`runtally.Client` and `AsyncClient` with servers that are broken, hostile or newer than they are."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from runtally import (
    ApiError,
    AsyncClient,
    Client,
    ConfigurationError,
    ConnectionFailed,
    Event,
    Forbidden,
    GraphFinal,
    InvalidRequest,
    InvalidResponse,
    NotFound,
    RateLimited,
    RunFailed,
    RuntallyError,
    ServerUnavailable,
    TextDelta,
    UnknownEvent,
)
from tests.clients.scripted_server import (
    ScriptedServer,
    done,
    events,
    frame,
    json_response,
    problem,
    response,
    serving,
    text,
)
from tests.patience import PATIENCE_S

KEY = "rt_" + "c1ient" * 4
FINAL = {
    "ok": True,
    "runId": "run-1",
    "requestId": None,
    "content": "ab",
    "error": None,
    "finishReason": "stop",
    "usage": {"promptTokens": 1, "completionTokens": 2},
}
RUN = {
    "runId": "run-1",
    "graphId": "claude_agents:assistant",
    "model": "m",
    "status": "succeeded",
    "attempt": 0,
    "createdAt": "2026-11-21T12:00:00Z",
    "final": FINAL,
}
ENDED = json_response(RUN)
CUT = [b"HTTP/1.1 200 OK\r\n"]


class Streamed(NamedTuple):
    """What a client got of a run."""

    events: list[Event]
    final: GraphFinal

    @property
    def text(self) -> str:
        return "".join(event.delta for event in self.events if isinstance(event, TextDelta))


Stream = Callable[..., Awaitable[Streamed]]


async def by_async_client(url: str, prompt: str = "hi", **options: Any) -> Streamed:
    async with AsyncClient(url, KEY, **options) as client, client.stream("a:b", prompt) as stream:
        got = [event async for event in stream]
        return Streamed(got, stream.final)


async def by_client(url: str, prompt: str = "hi", **options: Any) -> Streamed:
    def read() -> Streamed:
        with Client(url, KEY, **options) as client, client.stream("a:b", prompt) as stream:
            return Streamed(list(stream), stream.final)

    return await asyncio.to_thread(read)


each_client = pytest.mark.parametrize("stream", [by_client, by_async_client])


@each_client
async def test_a_stream_that_is_cut_delivers_each_event_once(stream: Stream) -> None:
    lost_head = CUT
    between = events(text(1, "a"), frame(2, "step", stepIndex=0, stepBudget=None))
    amid = events(text(2, "repeated"), frame(3, "status", phase="thinking", label=""), text(4, "b")[:20])
    rest = events(
        b": alive\n\n", text(4, "b"), frame(1_000_001, "run_started", runId="run-1"), done(1_000_002)
    )

    async with serving(lost_head, between, problem(503, "shutting_down"), amid, rest, ENDED) as server:
        got = await stream(server.url)

    first, second, refused, third, fourth, result = server.requests
    assert got.text == "ab"
    assert [type(event).__name__ for event in got.events] == [
        *("TextDelta", "Step", "Status", "TextDelta", "UnknownEvent", "Done")
    ]
    assert got.final.content == "ab"
    assert first.line == second.line == "POST /v1/runs/stream HTTP/1.1"
    assert first.body == second.body
    assert first.json["runId"] in third.line
    assert [each.headers.get("last-event-id") for each in (refused, third, fourth)] == ["2", "2", "3"]
    assert result.line == f"GET /v1/runs/{first.json['runId']} HTTP/1.1"


@each_client
async def test_a_key_that_may_not_read_runs_joins_its_own(stream: Stream) -> None:
    forbidden = problem(403, "forbidden")
    cut, again = events(text(1, "a")), events(text(1, "a"), text(2, "b"), done(3))

    async with serving(cut, forbidden, again, forbidden, json_response(FINAL)) as server:
        got = await stream(server.url)

    posted = [request for request in server.requests if request.line.startswith("POST")]
    assert (got.text, got.final.content) == ("ab", "ab")
    assert [request.line.split()[1] for request in posted] == [
        *("/v1/runs/stream", "/v1/runs/stream", "/v1/runs/wait")
    ]
    assert len({request.body for request in posted}) == 1


async def test_what_a_newer_server_adds_is_kept() -> None:
    stream = events(
        frame(1, "hologram", depth=3),
        frame(2, "text_delta", messageId="m", delta="a", language="la"),
        frame(3, "text_delta", text="renamed"),
        done(4),
    )
    newer = json_response({**RUN, "colour": "red", "final": {**FINAL, "error": "new_code"}})

    async with serving(stream, newer) as server:
        got = await by_async_client(server.url)

    hologram, delta, renamed, _ = got.events
    assert isinstance(hologram, UnknownEvent)
    assert (hologram.type, hologram.data["depth"]) == ("hologram", 3)
    assert isinstance(delta, TextDelta)
    assert delta.model_extra == {"language": "la"}
    assert isinstance(renamed, UnknownEvent)
    assert got.final.error == "new_code"


GARBAGE = b"\x00\xff<html>\n" * 1000
FAILURES: dict[str, tuple[list[Any], type[RuntallyError], str]] = {
    "a page": (response("<html>Hello</html>"), InvalidResponse, "no event stream but text/html"),
    "an error page": (response("<html>secret</html>", status=404), NotFound, "status 404"),
    "a page of a proxy": (response("<html>", status=502), ServerUnavailable, "status 502"),
    "no ids": (events(b'data: {"type":"done"}\n\n'), InvalidResponse, "no position"),
    "no numbers": (events(b'id: one\ndata: {"type":"done"}\n\n'), InvalidResponse, "no position"),
    "no object": (events(b"id: 1\ndata: [1]\n\n"), InvalidResponse, "no position or no fields"),
    "no JSON": (events(b"id: 1\ndata: <html>\n\n"), InvalidResponse, "not JSON"),
    "deep JSON": (events(b"id: 1\ndata: " + b"[" * 100_000 + b"\n\n"), InvalidResponse, "not JSON"),
    "garbage": (events(GARBAGE), ConnectionFailed, "before its end"),
    "garbage without end": (
        events(*(part for _ in range(40) for part in (GARBAGE, 0.05))),
        InvalidResponse,
        "no events",
    ),
    "silence": (events(5.0), ConnectionFailed, "lost"),
    "no response": ([5.0], ConnectionFailed, "lost"),
    "no HTTP": ([b"SSH-2.0-OpenSSH_9.6\r\n"], ConnectionFailed, "lost"),
    "an end without a result": (events(done(1)), InvalidResponse, "Run is not"),
    "a wrong encoding": (
        response(b"not gzip", kind="text/event-stream", Content_Encoding="gzip"),
        *(InvalidResponse, "not encoded"),
    ),
}


SILENT = {"silence", "no response", "garbage without end"}
"""Those that are known by time only; all others have time."""


@pytest.mark.parametrize("name", FAILURES)
async def test_a_broken_server_is_an_error_of_ours(name: str) -> None:
    answer, kind, words = FAILURES[name]
    wrong_run = [] if name != "an end without a result" else [json_response({"runId": 1})]

    async with serving(answer, *wrong_run) as server, asyncio.timeout(PATIENCE_S):
        with pytest.raises(kind, match=words) as raised:
            await by_async_client(server.url, timeout_s=0.5 if name in SILENT else 30, max_retries=1)

    assert type(raised.value) is kind
    assert KEY not in str(raised.value)
    assert "secret" not in str(raised.value)
    assert len(server.requests) <= 2


@each_client
async def test_the_key_is_not_sent_to_another_host(stream: Stream) -> None:
    async with serving(ENDED) as other:
        moved = response(status=307, Location=f"{other.url}/v1/runs/stream")
        async with serving(moved) as server:
            with pytest.raises(InvalidResponse, match=r"redirects .* to .*Use the URL"):
                await stream(server.url, max_retries=0)

    assert len(server.requests) == 1
    assert other.requests == []


async def test_retry_after_is_honoured() -> None:
    busy = problem(429, "queue_full", Retry_After="1")
    async with serving(busy, events(done(1)), ENDED) as server:
        started = time.monotonic()
        await by_async_client(server.url)
        assert time.monotonic() - started > 1

    async with serving(problem(429, "rate_limit", Retry_After="3600")) as server:
        with pytest.raises(RateLimited, match="It is rate_limit") as raised:
            await by_async_client(server.url)
    assert raised.value.retry_after_s == 3600
    assert len(server.requests) == 1


async def test_an_error_has_what_the_problem_document_has() -> None:
    document = {
        "title": "Unprocessable Entity",
        "detail": "priority: is too high",
        "code": "invalid_request",
        "errors": [{"field": "priority", "message": "is too high"}, "odd"],
    }
    async with serving(json_response(document, status=422, X_Request_ID="r-9")) as server:
        with pytest.raises(InvalidRequest, match="priority") as raised:
            await by_async_client(server.url)

    error: ApiError = raised.value
    assert (error.status, error.code, error.request_id) == (422, "invalid_request", "r-9")
    assert [(each.field, each.message) for each in error.errors] == [("priority", "is too high")]
    assert len(server.requests) == 1


@asynccontextmanager
async def a_client(*answers: list[Any]) -> Any:
    async with serving(*answers) as server, AsyncClient(server.url, KEY, max_retries=2) as client:
        yield client, server


async def test_a_request_that_may_not_be_repeated_is_sent_once() -> None:
    async with a_client(CUT) as (client, server):
        with pytest.raises(ConnectionFailed):
            await client.conversations.fork("chat-1")
        assert len(server.requests) == 1


async def test_a_message_whose_response_is_lost_is_sent_with_the_same_key() -> None:
    sent = json_response({"runId": "run-1", "messageId": "m", "position": 9})
    async with a_client(CUT, sent) as (client, server):
        assert (await client.send("run-1", "And in Rome?")).position == 9

    first, second = server.requests
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert first.body == second.body


async def test_a_list_that_does_not_end_is_an_error() -> None:
    async with a_client(json_response({"items": [RUN], "nextCursor": "x"})) as (client, _):
        with pytest.raises(InvalidResponse, match="does not end"):
            assert [run async for run in client.list_runs()]


async def test_a_page_is_not_taken_for_a_file() -> None:
    page = "text/html; charset=utf-8"
    answers = response("Sign in", kind=page), response("Sign in", kind="text/plain")
    async with serving(*answers) as server, AsyncClient(server.url, KEY) as client:
        with pytest.raises(InvalidResponse, match=f"is not a file but {page}. Is it a Runtally server"):
            await client.read_file("run-1", "bill.txt")
        file = await client.read_file("run-1", "bill.txt")

    assert file == b"Sign in"


async def test_ids_stay_one_part_of_the_path() -> None:
    async with a_client(ENDED) as (client, server):
        await client.get("a/../../v1/keys?x#y")
        for wrong in ("", ".", ".."):
            with pytest.raises(ValueError, match="is no id"):
                await client.delete(wrong)

    assert [request.line.split()[1] for request in server.requests] == [
        "/v1/runs/a%2F..%2F..%2Fv1%2Fkeys%3Fx%23y"
    ]


async def test_options_have_the_names_of_the_request() -> None:
    started = json_response({"runId": "run-1", "status": "queued"}, status=202)
    at = datetime(2026, 11, 21, tzinfo=UTC)
    async with a_client(started) as (client, server):
        await client.start(
            "a:b",
            [{"role": "user", "content": "\ud800"}],
            run_id="run-1",
            limits={"max_budget_usd": Decimal("1E-7")},
            files={"a.txt": b"hi"},
            start_after=at,
            response_schema={"type": "object"},
            tool_ids=("t",),
        )
        with pytest.raises(TypeError, match="unknown option 'seed'"):
            await client.start("a:b", "hi", seed=1)
        with pytest.raises(ValueError, match="time zone"):
            await client.start("a:b", "hi", start_after=at.replace(tzinfo=None) + timedelta(1))

    (request,) = server.requests
    assert request.json == {
        "runId": "run-1",
        "graphId": "a:b",
        "messages": [{"role": "user", "content": "\ud800"}],
        "toolIds": ["t"],
        "startAfter": "2026-11-21T00:00:00+00:00",
        "responseFormat": {"type": "json_schema", "schema": {"type": "object"}},
        "limits": {"maxBudgetUsd": "0.0000001"},
        "files": [{"path": "a.txt", "data": "aGk="}],
    }


def test_a_client_needs_a_url_and_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUNTALLY_API_KEY", raising=False)
    for url, key, words in (
        ("ftp://x", KEY, "must start with http"),
        ("http://", KEY, "must start with http"),
        ("http://[::1", KEY, "not valid"),
        ("http://x", "", "RUNTALLY_API_KEY is not set"),
        ("http://x", "rt_a\r\nX: y", "characters"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            Client(url, key)
    monkeypatch.setenv("RUNTALLY_API_KEY", KEY)
    monkeypatch.setenv("RUNTALLY_URL", "https://runtally.example.org/behind/")
    with Client() as client:
        assert client.url == "https://runtally.example.org/behind"
        assert KEY not in repr(client)


def test_a_run_without_an_answer_is_an_error_only_if_wanted() -> None:
    final = GraphFinal.model_validate_json(json.dumps({**FINAL, "ok": False, "error": "timeout"}))

    with pytest.raises(RunFailed, match="run-1 failed: timeout") as raised:
        final.raise_for_error()

    assert raised.value.final is final
    assert issubclass(Forbidden, ApiError)
    assert issubclass(ApiError, RuntallyError)


async def test_the_result_is_there_after_the_last_event_only() -> None:
    async with (
        serving(events(text(1, "a"), done(2)), ENDED) as server,
        AsyncClient(server.url, KEY) as client,
    ):
        stream = client.stream("a:b", "hi", run_id="run-1")
        async for _ in stream:
            with pytest.raises(RuntallyError, match="followed still"):
                _ = stream.final
            break
        assert (await stream.result()).content == "ab"
        assert stream.final.content == "ab"
        assert isinstance(server, ScriptedServer)
