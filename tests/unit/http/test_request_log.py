from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from app.errors import Unavailable
from app.http.middleware import HeadRequests, RequestIds
from app.http.problems import install_error_handlers
from app.http.request_log import RequestLog
from app.platform.logs.context import note
from tests.log_lines import written_log

TRACE = "0af7651916cd43dd8448eb211c80319c"
RUN = "/v1/runs/{runId}"
FRAMES = (b"retry: 1\n\n", b"id: 1\ndata: {}\n\ndata: {}\n\n", b": comment\n\n", b"data: {}\n\n")


class Away(Unavailable):
    """Somewhere secret is away."""


def an_app() -> FastAPI:
    app = FastAPI()
    install_error_handlers(app)

    @app.get(RUN)
    async def look_up(runId: str) -> str:  # noqa: N803 - as in our routes
        note(account_id="acct")
        return runId

    @app.get("/stream")
    async def stream() -> StreamingResponse:
        async def frames() -> AsyncIterator[bytes]:
            for frame in FRAMES:
                yield frame

        return StreamingResponse(frames(), media_type="text/event-stream")

    @app.get("/healthz")
    async def health() -> str:
        return "ok"

    @app.get("/away")
    async def fail() -> str:
        raise Away

    app.add_middleware(HeadRequests)
    app.add_middleware(RequestLog)
    app.add_middleware(RequestIds)
    return app


@pytest.mark.parametrize(
    ("method", "path", "headers", "expected"),
    [
        (
            "GET",
            "/v1/runs/r1?key=secret",
            {},
            {"route": RUN, "status": 200, "run_id": "r1", "account_id": "acct"},
        ),
        ("HEAD", "/v1/runs/r1", {}, {"method": "HEAD", "route": RUN, "status": 200}),
        ("GET", "/v1/runs/a%20b%0Aforged", {}, {"route": RUN, "run_id": None}),
        ("GET", "/secret/path", {}, {"route": None, "status": 404}),
        ("GET", "/stream", {}, {"events": 3, "complete": True}),
        ("GET", "/away", {}, {"status": 503, "code": "unavailable"}),
        ("GET", "/stream", {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}, {"trace_id": TRACE}),
        ("GET", "/stream", {"traceparent": "secret"}, {"trace_id": None}),
        ("GET", "/stream", {"x-request-id": "q1"}, {"request_id": "q1"}),
    ],
)
async def test_a_request_has_one_line_with_nothing_that_the_client_chose_freely(
    method: str, path: str, headers: dict[str, str], expected: dict[str, Any]
) -> None:
    with written_log() as written:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(an_app()), base_url="http://t") as http:
            await http.request(method, path, headers=headers)

    (line,) = written.of("http.request")
    assert {name: line.get(name) for name in expected} == expected
    assert line["duration_ms"] > 0
    assert "secret" not in written.getvalue()
    assert "forged" not in written.getvalue()
    assert len(written.lines()) == 1


async def test_monitoring_is_logged_at_debug_only() -> None:
    with written_log() as written:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(an_app()), base_url="http://t") as http:
            await http.get("/healthz")
    with written_log(level="debug") as more:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(an_app()), base_url="http://t") as http:
            await http.get("/healthz")

    assert written.lines() == []
    assert [line["level"] for line in more.of("http.request")] == ["debug"]
