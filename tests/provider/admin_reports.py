"""The usage and cost reports of a scripted provider: what it really answered, as its Admin API reports it."""

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Protocol, TypeAlias, cast
from urllib.parse import parse_qs

from app.billing.prices.price_list import PriceList
from app.simulator.script import HttpError

ADMIN_PATH = "/v1/organizations/"

_WIDTHS = {"1m": timedelta(minutes=1), "1h": timedelta(hours=1), "1d": timedelta(days=1)}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONG_PROMPT = 200_000
_KINDS = {
    "uncached_input_tokens": "input",
    "output_tokens": "output",
    "cache_read_input_tokens": "cache_read",
    "cache_creation.ephemeral_5m_input_tokens": "cache_write_5m",
    "cache_creation.ephemeral_1h_input_tokens": "cache_write_1h",
}
_SEARCHES = "web_search_requests"
_CENTS = 100
_BAD_REQUEST = HttpError(400, "invalid_request_error", "unknown report or parameter")
_BAD_KEY = HttpError(401, "authentication_error", "invalid x-api-key")

Query: TypeAlias = Mapping[str, Sequence[str]]


class AnsweredMessage(Protocol):
    """A message that was sent, as far as it was sent."""

    model: str
    start_usage: dict[str, Any]
    final_usage: dict[str, Any] | None
    sent_output: str


@dataclass(slots=True)
class AnsweredCall:
    """A call that was answered."""

    message: AnsweredMessage
    api_key: str
    profile_id: str | None = None
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class _Usage:
    at: datetime
    group: Mapping[str, str | None]
    counts: Mapping[str, int]
    requests: int


@dataclass(slots=True)
class AdminReports:
    """`answer` gives the response to a request of the Admin API."""

    admin_key: str = "sk-ant-admin-simulated"
    calls: list[AnsweredCall] = field(default_factory=list)
    prices: PriceList = field(default_factory=PriceList)
    """The provider's list prices."""
    failures: list[HttpError] = field(default_factory=list)
    """Given first, one for each request."""
    overridden: Any = None
    """Given instead of any report."""
    not_offered: frozenset[str] = frozenset()
    """Last parts of the paths of reports that do not exist."""
    requests: list[str] = field(default_factory=list)
    """The paths that were requested."""

    def answer(self, path: str, headers: Mapping[str, str], query: bytes) -> dict[str, Any] | HttpError:
        """The report as JSON, or an error."""
        report = path.partition(ADMIN_PATH)[2]
        self.requests.append(report)
        if headers.get("x-api-key") != self.admin_key:
            return _BAD_KEY
        if self.failures:
            return self.failures.pop(0)
        if self.overridden is not None:
            return cast("dict[str, Any]", self.overridden)
        reports: Mapping[str, Callable[[Query], dict[str, Any]]] = {
            "usage_report/messages": self._usage_report,
            "cost_report": self._cost_report,
            "analytics/usage": self._analytics_usage,
            "analytics/cost": self._analytics_cost,
            "api_keys": self._api_keys,
        }
        if report not in reports or report in self.not_offered:
            return HttpError(404, "not_found_error", "not found")
        try:
            return reports[report](parse_qs(query.decode()))
        except (KeyError, ValueError):
            return _BAD_REQUEST

    def _usage_report(self, query: Query) -> dict[str, Any]:
        width = _WIDTHS[query["bucket_width"][0]]
        grouped = _grouped(self._usage(), query, width)
        return _page(
            [
                {
                    "starting_at": _time(at),
                    "ending_at": _time(at + width),
                    "results": [{**row.group, **_metrics(row.counts)} for row in grouped.get(at, [])],
                }
                for at in _buckets(query, width)
            ],
            query,
        )

    def _cost_report(self, query: Query) -> dict[str, Any]:
        width = _WIDTHS["1d"]
        days = _grouped(self._usage(), {**query, "group_by[]": _PRICED}, width)
        return _page(
            [
                {
                    "starting_at": _time(at),
                    "ending_at": _time(at + width),
                    "results": [
                        {"currency": "USD", "amount": amount, **row.group, **cost}
                        for row in days.get(at, [])
                        for cost, amount in self._costs(row)
                    ],
                }
                for at in _buckets(query, width)
            ],
            query,
        )

    def _analytics_usage(self, query: Query) -> dict[str, Any]:
        return self._analytics(
            query,
            lambda row: [
                {
                    "group": row.group,
                    "usage": {
                        **_metrics(row.counts),
                        "requests": row.requests,
                        "total_tokens": sum(row.counts.values()) - row.counts[_SEARCHES],
                    },
                }
            ],
        )

    def _analytics_cost(self, query: Query) -> dict[str, Any]:
        return self._analytics(
            query,
            lambda row: [
                {
                    "group": {**row.group, **cost},
                    "cost": {"currency": "USD", "amount": amount, "list_amount": amount, "requests": None},
                }
                for cost, amount in self._costs(row)
            ],
        )

    def _analytics(self, query: Query, items: Callable[[_Usage], list[dict[str, Any]]]) -> dict[str, Any]:
        width = _WIDTHS[query["time_bucket_width"][0]]
        if len([name for name in query["group_by[]"] if name not in _FAN_OUT]) > _MOST_GROUPS:
            raise ValueError
        rows = _grouped(self._usage(), query, width)
        return _page(
            [
                {"starting_at": _time(at), "ending_at": _time(at + width), **item}
                for at in sorted(rows)
                for row in rows[at]
                for item in items(row)
            ],
            query,
        )

    def _api_keys(self, _query: Query) -> dict[str, Any]:
        secrets = dict.fromkeys(call.api_key for call in self.calls)
        keys = [
            {"type": "api_key", "id": key_id(secret), "partial_key_hint": f"{secret[:6]}...{secret[-4:]}"}
            for secret in secrets
        ]
        return {"data": keys, "has_more": False, "last_id": keys[-1]["id"] if keys else None}

    def _usage(self) -> Iterator[_Usage]:
        for call in self.calls:
            yield from _usage_of(call)

    def _costs(self, row: _Usage) -> Iterator[tuple[dict[str, str | None], str]]:
        """Each kind with its cost in cents."""
        price = self.prices.find_price(row.group["model"] or "", at=row.at)
        if price is None:
            return
        prompt = _LONG_PROMPT + 1 if row.group.get("context_window") == "200k-1M" else 0
        factor = Decimal(1)
        for name in ("inference_geo", "service_tier", "speed"):
            factor *= price.factor(name, row.group.get(name) or _USUAL[name]) or 1
        for token_type, kind in _KINDS.items():
            if tokens := row.counts[kind]:
                cents = tokens * price.rate(kind).per_token(prompt) * factor * _CENTS
                yield {"cost_type": "tokens", "token_type": token_type}, f"{cents:f}"
        if searches := row.counts[_SEARCHES]:
            cents = searches * (price.web_search or Decimal(0)) * _CENTS
            yield {"cost_type": "web_search", "token_type": None}, f"{cents:f}"


_PRICED = ("model", "inference_geo", "service_tier", "speed", "context_window")
_FAN_OUT = {"cost_type", "token_type"}
_MOST_GROUPS = 5
_USUAL = {"inference_geo": "not_available", "service_tier": "standard", "speed": "standard"}


def key_id(secret: str) -> str:
    """The provider's id of a key."""
    return f"apikey_{hashlib.sha256(secret.encode()).hexdigest()[:16]}"


def _usage_of(call: AnsweredCall) -> Iterator[_Usage]:
    """The tokens of a call; those of iterations beside the message count for their own model."""
    message = call.message
    usage = message.final_usage
    if usage is None:
        # One token per word, as the simulator counts them.
        output = max(message.start_usage.get("output_tokens") or 0, len(message.sent_output.split()))
        usage = {**message.start_usage, "output_tokens": output}
    yield _one(call, message.model, usage, of=usage, requests=1)
    for each in usage.get("iterations") or []:
        if each["type"] in {"compaction", "advisor_message"}:
            own = {"speed": None} if each["type"] == "advisor_message" else {}
            yield _one(call, each.get("model") or message.model, each, of={**usage, **own}, requests=0)


def _one(
    call: AnsweredCall, model: str, usage: Mapping[str, Any], *, of: Mapping[str, Any], requests: int
) -> _Usage:
    counts = _counts(usage)
    prompt = sum(counts.values()) - counts["output"] - counts[_SEARCHES]
    geo = of.get("inference_geo")
    return _Usage(
        call.at,
        {
            "api_key_id": key_id(call.api_key),
            "model": model,
            "inference_geo": None if geo == "not_available" else geo,
            "service_tier": of.get("service_tier") or "standard",
            "speed": of.get("speed") or "standard",
            "context_window": "200k-1M" if prompt > _LONG_PROMPT else "0-200k",
            "user_profile_id": call.profile_id,
            "workspace_id": None,
        },
        counts,
        requests,
    )


def _counts(usage: Mapping[str, Any]) -> dict[str, int]:
    written = usage.get("cache_creation") or {}
    one_hour = written.get("ephemeral_1h_input_tokens") or 0
    return {
        "input": usage.get("input_tokens") or 0,
        "output": usage.get("output_tokens") or 0,
        "cache_read": usage.get("cache_read_input_tokens") or 0,
        "cache_write_5m": (usage.get("cache_creation_input_tokens") or 0) - one_hour,
        "cache_write_1h": one_hour,
        _SEARCHES: (usage.get("server_tool_use") or {}).get(_SEARCHES) or 0,
    }


def _grouped(rows: Iterator[_Usage], query: Query, width: timedelta) -> dict[datetime, list[_Usage]]:
    start, end = _moment(query, "starting_at"), _moment(query, "ending_at")
    names = [name for name in query["group_by[]"] if name not in _FAN_OUT]
    sums: dict[tuple[datetime, tuple[str | None, ...]], list[_Usage]] = defaultdict(list)
    for row in rows:
        if start <= row.at < end:
            sums[_floor(row.at, width), tuple(row.group[name] for name in names)].append(row)
    found: dict[datetime, list[_Usage]] = defaultdict(list)
    for (at, values), members in sums.items():
        counts = {kind: sum(row.counts[kind] for row in members) for kind in (*_KINDS.values(), _SEARCHES)}
        group = dict(zip(names, values, strict=True))
        found[at].append(_Usage(at, group, counts, sum(row.requests for row in members)))
    return found


def _buckets(query: Query, width: timedelta) -> list[datetime]:
    start, end = _floor(_moment(query, "starting_at"), width), _moment(query, "ending_at")
    return list(itertools.takewhile(lambda at: at < end, (start + width * n for n in itertools.count())))


def _page(items: list[dict[str, Any]], query: Query) -> dict[str, Any]:
    first, limit = int(query.get("page", ["0"])[0]), int(query["limit"][0])
    last = first + limit
    more = last < len(items)
    return {"data": items[first:last], "has_more": more, "next_page": str(last) if more else None}


def _metrics(counts: Mapping[str, int]) -> dict[str, Any]:
    return {
        "uncached_input_tokens": counts["input"],
        "output_tokens": counts["output"],
        "cache_read_input_tokens": counts["cache_read"],
        "cache_creation": {
            "ephemeral_5m_input_tokens": counts["cache_write_5m"],
            "ephemeral_1h_input_tokens": counts["cache_write_1h"],
        },
        "server_tool_use": {_SEARCHES: counts[_SEARCHES]},
    }


def _moment(query: Query, name: str) -> datetime:
    return datetime.fromisoformat(query[name][0])


def _floor(at: datetime, width: timedelta) -> datetime:
    return at - (at - _EPOCH) % width


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
