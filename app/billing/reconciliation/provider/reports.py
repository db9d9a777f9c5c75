"""ProviderReports: reads the usage and cost reports of the provider's Admin API."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Self

import httpx2
import structlog

from app.billing.reconciliation import records
from app.billing.reconciliation.provider import mapper
from app.errors import Unavailable
from app.platform.hops import reason_of
from app.platform.network import DIRECT, Network
from app.platform.outgoing import HttpSender, ResponseRefused

log = structlog.get_logger(__name__)

USAGE_REPORT = "/v1/organizations/usage_report/messages"
COST_REPORT = "/v1/organizations/cost_report"
ANALYTICS_USAGE = "/v1/organizations/analytics/usage"
ANALYTICS_COST = "/v1/organizations/analytics/cost"
API_KEYS = "/v1/organizations/api_keys"

_VERSION = "2023-06-01"
_SPEED_BETA = "fast-mode-2026-02-01"
_ANALYTICS_BETA = "analytics-usage-cost-2026-08-24"

_USAGE_GROUPS = ("api_key_id", "model", "inference_geo", "service_tier", "speed", "context_window")
_REQUEST_GROUPS = ("api_key_id", "model", "user_profile_id")
_PRICE_GROUPS = ("model", "inference_geo", "service_tier", "speed", "context_window")
_WIDTHS = {records.MINUTE: ("1m", 1440), records.HOUR: ("1h", 168), records.DAY: ("1d", 31)}
"""The names of bucket widths, and how many buckets a page may have."""
_ROWS_PER_PAGE = 1000

_TIMEOUT_S = 60.0
_TRIES = 5
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_MOST_PAGES = 2000
_MOST_ROWS = 500_000
"""Of one report: three hundred for each minute of a day."""
_PAGE_BYTES = 32 * 1024 * 1024


class ReportsUnavailable(Unavailable):
    """The provider's reports cannot be read; try again later."""

    @classmethod
    def of(cls, path: str, problem: str) -> Self:
        """The error for one report; contains nothing that the provider sent."""
        return cls(f"{(cls.__doc__ or '').partition(chr(10))[0]} ({path}: {problem})")


class ReportNotOffered(ReportsUnavailable):
    """The provider does not offer this report to this key."""


class AdminKeyRefused(ReportsUnavailable):
    """The provider does not accept the admin key."""


_FINAL: Mapping[int, type[ReportsUnavailable]] = {
    HTTPStatus.BAD_REQUEST: ReportNotOffered,
    HTTPStatus.UNAUTHORIZED: AdminKeyRefused,
    HTTPStatus.FORBIDDEN: ReportNotOffered,
    HTTPStatus.NOT_FOUND: ReportNotOffered,
}
"""What repeating a request cannot change."""


class ProviderReports(HttpSender):
    """`async with ProviderReports(...) as reports:`; the only holder of the admin key."""

    def __init__(
        self,
        *,
        base_url: str,
        admin_key: str,
        first_pause_s: float = _FIRST_PAUSE_S,
        tries: int = _TRIES,
        timeout_s: float = _TIMEOUT_S,
        network: Network = DIRECT,
    ) -> None:
        """`tries`: how often a request is made that fails for a time; `timeout_s`: how long each may take."""
        super().__init__(httpx2.Timeout(timeout_s), network=network)
        self._tries = tries
        self._timeout_s = timeout_s
        self._base_url = base_url.rstrip("/")
        self._headers = {"x-api-key": admin_key, "anthropic-version": _VERSION}
        self._first_pause_s = first_pause_s

    async def check(self) -> None:
        """Read a minute of the usage report, the smallest request that proves the key."""
        end = records.floor_to(datetime.now(UTC), records.MINUTE)
        query = [*_span(records.Window(end - records.MINUTE, end)), ("bucket_width", "1m"), ("limit", "1")]
        _data(await self._get(USAGE_REPORT, [*query, *_grouped(("model",))]))

    async def usage(self, window: records.Window) -> list[records.ReportedUsage]:
        """Tokens by minute, key and everything that prices depend on."""
        buckets = self._report(USAGE_REPORT, window, width="1m", groups=_USAGE_GROUPS)
        rows = [row async for bucket in buckets for row in _read(mapper.usage_rows, bucket)]
        return _all_within(window, rows)

    async def requests(self, window: records.Window) -> list[records.ReportedRequests]:
        """Requests by minute, key, model and user profile; raises `ReportNotOffered`."""
        rows = self._analytics(ANALYTICS_USAGE, window, width="1m", groups=_REQUEST_GROUPS)
        return _all_within(window, [_only(mapper.request_row, row) async for row in rows])

    async def list_prices(self, window: records.Window) -> list[records.ListedCost]:
        """List prices and tokens by hour and kind; raises `ReportNotOffered`."""
        rows = self._analytics(ANALYTICS_USAGE, window, width="1h", groups=_PRICE_GROUPS)
        used = [_only(mapper.analytics_usage, row) async for row in rows]
        groups = (*_PRICE_GROUPS, "cost_type", "token_type")
        costs = [
            _only(mapper.analytics_cost, row)
            async for row in self._analytics(ANALYTICS_COST, window, width="1h", groups=groups)
        ]
        return _with_tokens([cost for cost in costs if cost is not None], used)

    async def daily_costs(self, window: records.Window) -> list[records.ListedCost]:
        """What was charged for the whole days of a window, with their tokens; by day and kind."""
        days = self._report(USAGE_REPORT, window, width="1d", groups=_PRICE_GROUPS)
        used = [row async for day in days for row in _read(mapper.usage_rows, day)]
        costs = [
            cost
            async for bucket in self._report(COST_REPORT, window, width="1d", groups=("description",))
            for cost in _read(mapper.cost_report_rows, bucket)
        ]
        return _with_tokens(costs, used)

    async def key_ids(self, secret: str) -> list[str]:
        """The provider's ids of the keys whose visible part fits this key."""
        found: list[str] = []
        after: str | None = None
        for _ in range(_MOST_PAGES):
            page = await self._get(API_KEYS, [("limit", "100"), *([("after_id", after)] if after else [])])
            keys = [each for each in _data(page) if _fits(each.get("partial_key_hint"), secret)]
            found += [str(each["id"]) for each in keys if isinstance(each.get("id"), str)]
            last = page.get("last_id")
            if page.get("has_more") is not True or not isinstance(last, str) or last == after:
                break
            after = last
        return found

    async def _report(
        self, path: str, window: records.Window, *, width: str, groups: Sequence[str]
    ) -> AsyncIterator[dict[str, Any]]:
        limit, known = dict(_WIDTHS.values())[width], set[datetime]()
        async for bucket in self._pages(
            path,
            [*_span(window), ("bucket_width", width), ("limit", str(limit)), *_grouped(groups)],
            beta=_SPEED_BETA if "speed" in groups else None,
        ):
            at = _only(lambda each: mapper.moment_of(each, "starting_at"), bucket)
            if at in known:
                raise _unreadable(path, "starting_at")
            known.add(at)
            yield bucket

    def _analytics(
        self, path: str, window: records.Window, *, width: str, groups: Sequence[str]
    ) -> AsyncIterator[dict[str, Any]]:
        query = [*_span(window), ("time_bucket_width", width), ("limit", str(_ROWS_PER_PAGE))]
        return self._pages(
            path, [*query, ("order_by", "time"), ("order", "asc"), *_grouped(groups)], beta=_ANALYTICS_BETA
        )

    async def _pages(
        self, path: str, query: list[tuple[str, str]], *, beta: str | None
    ) -> AsyncIterator[dict[str, Any]]:
        cursor, known, rows = None, set[str](), 0
        for _ in range(_MOST_PAGES):
            page = await self._get(path, [*query, *([("page", cursor)] if cursor else [])], beta=beta)
            for item in _data(page):
                results = item.get("results")
                rows += len(results) if isinstance(results, list) else 1
                yield item
            if rows > _MOST_ROWS:
                raise _unreadable(path, "rows")
            if page.get("has_more") is False:
                return
            cursor = page.get("next_page")
            if page.get("has_more") is not True or not isinstance(cursor, str) or cursor in known:
                # A part of a report would look like messages that the provider does not know.
                raise _unreadable(path, "next_page")
            known.add(cursor)
        raise _unreadable(path, "has_more")

    async def _get(
        self, path: str, query: list[tuple[str, str]], *, beta: str | None = None
    ) -> dict[str, Any]:
        headers = {**self._headers, **({} if beta is None else {"anthropic-beta": beta})}
        url = f"{self._base_url}{path}"
        request = httpx2.Request("GET", url, params=httpx2.QueryParams(tuple(query)), headers=headers)
        for tried in range(1, self._tries + 1):
            try:
                response = await self._page(request)
            except (TimeoutError, httpx2.HTTPError) as error:
                problem, retry_after = reason_of(error), None
            else:
                status, retry_after = response.status_code, response.headers.get("retry-after")
                if status == HTTPStatus.OK:
                    return _object(path, response.content)
                problem = str(status)
                if status in _FINAL:
                    raise _FINAL[status].of(path, problem)
                if status != HTTPStatus.TOO_MANY_REQUESTS and status < HTTPStatus.INTERNAL_SERVER_ERROR:
                    break
            if tried < self._tries:
                await asyncio.sleep(self._pause_s(tried, retry_after))
        raise ReportsUnavailable.of(path, problem)

    async def _page(self, request: httpx2.Request) -> httpx2.Response:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._fetch(request, max_bytes=_PAGE_BYTES)
        except ResponseRefused as error:
            raise _unreadable(request.url.path, str(error)) from error

    def _pause_s(self, tried: int, retry_after: str | None) -> float:
        pause: float = self._first_pause_s * 2 ** (tried - 1)
        with suppress(ValueError):
            pause = max(0.0, float(retry_after)) if retry_after else pause
        return min(pause, _LONGEST_PAUSE_S)


def _read(rows: Any, bucket: dict[str, Any]) -> list[Any]:
    try:
        return list(rows(bucket))
    except mapper.ReportUnreadable as error:
        raise _unreadable("report", str(error)) from error


def _only(row_of: Any, row: dict[str, Any]) -> Any:
    return _read(lambda each: [row_of(each)], row)[0]


def _all_within(window: records.Window, rows: list[Any]) -> list[Any]:
    if not all(window.start <= row.at < window.end for row in rows):
        raise _unreadable("report", "starting_at")
    return rows


def _unreadable(path: str, what: str) -> ReportsUnavailable:
    return ReportsUnavailable.of(path, f"unknown form: {what}")


def _object(path: str, body: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise _unreadable(path, "no_object")
    return parsed


def _data(page: Mapping[str, Any]) -> list[dict[str, Any]]:
    data = page.get("data")
    if not isinstance(data, list) or not all(isinstance(each, dict) for each in data):
        raise _unreadable("report", "data")
    return data


def _span(window: records.Window) -> list[tuple[str, str]]:
    return [("starting_at", _rfc3339(window.start)), ("ending_at", _rfc3339(window.end))]


def _rfc3339(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _grouped(groups: Sequence[str]) -> list[tuple[str, str]]:
    return [("group_by[]", group) for group in groups]


def _with_tokens(
    costs: Sequence[records.ListedCost], used: Sequence[records.ReportedUsage]
) -> list[records.ListedCost]:
    """The same costs with the tokens or searches of their kinds."""
    counted: dict[tuple[datetime, records.Dimensions], records.Counts] = defaultdict(lambda: records.NOTHING)
    for row in used:
        counted[row.at, row.dimensions] = records.plus(counted[row.at, row.dimensions], row.counts)
    return [
        replace(cost, tokens=counted[cost.at, cost.dimensions][records.KINDS.index(cost.kind)])
        for cost in costs
    ]


def _fits(hint: Any, secret: str) -> bool:
    """Whether a key is the one of a hint such as `sk-ant-api03-R2D...igAA`."""
    if not isinstance(hint, str):
        return False
    start, dots, end = hint.partition("...")
    return bool(dots and start and end) and secret.startswith(start) and secret.endswith(end)
