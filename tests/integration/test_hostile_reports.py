"""Usage reports that are incomplete, repeated or too long: none is read as if it were whole."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

import pytest

from app.billing.reconciliation.provider.reports import ProviderReports, ReportsUnavailable
from app.billing.reconciliation.records import Window
from app.platform.server.loopback import Receive, Scope, Send, serve_on_loopback

START = datetime(2026, 11, 20, tzinfo=UTC)
WINDOW = Window(START, START + timedelta(days=1))

Pages = Callable[[str | None], dict[str, Any]]
"""The page after a cursor."""


def bucket(at: str = "2026-11-20T00:00:00Z", rows: int = 1) -> dict[str, Any]:
    row = {"uncached_input_tokens": 1, "output_tokens": 1, "cache_read_input_tokens": 0}
    return {"starting_at": at, "results": [{**row, "model": "claude-sonnet-4-6"}] * rows}


def in_one_page(*buckets: dict[str, Any], **page: Any) -> Pages:
    return lambda _: {"data": buckets, "has_more": False, "next_page": None, **page}


def in_a_circle(cursor: str | None) -> dict[str, Any]:
    return {"data": [], "has_more": True, "next_page": "b" if cursor == "a" else "a"}


def too_long(cursor: str | None) -> dict[str, Any]:
    number = int(cursor or 0)
    at = (START + timedelta(minutes=number)).isoformat()
    return {"data": [bucket(at, 60_000)], "has_more": number < 10, "next_page": str(number + 1)}


async def read(pages: Pages) -> int:
    """How many rows the report has that this provider answers with."""

    async def answer(scope: Scope, _receive: Receive, send: Send) -> None:
        (cursor,) = parse_qs(scope["query_string"].decode()).get("page", [None])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(pages(cursor)).encode()})

    async with (
        serve_on_loopback(answer) as url,
        ProviderReports(base_url=url, admin_key="k", first_pause_s=0) as reports,
    ):
        return len(await reports.usage(WINDOW))


async def test_a_report_in_pages_is_read() -> None:
    first = in_one_page(bucket(), has_more=True, next_page="a")(None)
    second = in_one_page(bucket("2026-11-20T23:59:00Z", 2))("a")

    assert await read(lambda cursor: second if cursor else first) == 3


@pytest.mark.parametrize(
    ("pages", "problem"),
    [
        pytest.param(in_one_page(has_more="true", next_page="a"), "next_page", id="more in words"),
        pytest.param(in_one_page(has_more=None), "next_page", id="unknown whether there is more"),
        pytest.param(in_one_page(has_more=True), "next_page", id="more without a cursor"),
        pytest.param(in_a_circle, "next_page", id="a circle"),
        pytest.param(too_long, "rows", id="too many rows"),
        pytest.param(in_one_page(bucket(), bucket()), "starting_at", id="a minute twice"),
        pytest.param(
            in_one_page(bucket(), bucket("2026-11-20T01:00:00+01:00")), "starting_at", id="in another zone"
        ),
        pytest.param(
            in_one_page(bucket("2026-11-21T00:00:00Z")), "starting_at", id="a minute of another day"
        ),
    ],
)
async def test_a_report_that_is_not_whole_is_not_read(pages: Pages, problem: str) -> None:
    with pytest.raises(ReportsUnavailable, match=problem):
        await read(pages)
