"""Rows of the provider's usage and cost reports -> records; pure.

A row that is not understood fails the whole reconciliation: a guess would hide a difference.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from app.billing.reconciliation import records
from app.storable import identifier

MOST_COUNT = 10**15
_CENTS = Decimal(100)
_AMOUNT = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,20})?")
_TOKEN_TYPES = {
    "uncached_input_tokens": "input",
    "output_tokens": "output",
    "cache_read_input_tokens": "cache_read",
    "cache_creation.ephemeral_5m_input_tokens": "cache_write_5m",
    "cache_creation.ephemeral_1h_input_tokens": "cache_write_1h",
}
_WEB_SEARCH = "web_search"


class ReportUnreadable(ValueError):
    """A report has a form that is not known; the text names the field, never its value."""


def usage_rows(bucket: Any) -> Iterator[records.ReportedUsage]:
    at = moment_of(bucket, "starting_at")
    for row in _list(bucket, "results"):
        yield records.ReportedUsage(at, _id(row, "api_key_id"), dimensions_of(row), counts_of(row))


def request_row(row: Any) -> records.ReportedRequests:
    """A row of `analytics/usage`, grouped by key, model and user profile."""
    group, usage = _object(row, "group"), _object(row, "usage")
    requests = usage.get("requests")
    return records.ReportedRequests(
        at=moment_of(row, "starting_at"),
        api_key_id=_id(group, "api_key_id"),
        model=dimensions_of(group).model,
        profile_id=_id(group, "user_profile_id"),
        requests=0 if requests is None else _count(usage, "requests"),
        counts=counts_of(usage),
    )


def analytics_usage(row: Any) -> records.ReportedUsage:
    """A row of `analytics/usage`, grouped by what prices depend on."""
    at, group = moment_of(row, "starting_at"), _object(row, "group")
    return records.ReportedUsage(at, None, dimensions_of(group), counts_of(_object(row, "usage")))


def analytics_cost(row: Any) -> records.ListedCost | None:
    """A row of `analytics/cost` by token type, without its tokens; None for what has no such price."""
    group, cost = _object(row, "group"), _object(row, "cost")
    kind = _kind_of(group)
    if kind is None:
        return None
    at, ends_at = moment_of(row, "starting_at"), moment_of(row, "ending_at")
    return records.ListedCost(at, ends_at, dimensions_of(group), kind, 0, *_cents(cost, "list_amount"))


def cost_report_rows(bucket: Any) -> Iterator[records.ListedCost]:
    """The rows of a day of `cost_report`, grouped by description; without their tokens."""
    at, ends_at = moment_of(bucket, "starting_at"), moment_of(bucket, "ending_at")
    for row in _list(bucket, "results"):
        kind = _kind_of(row)
        if kind is not None:
            yield records.ListedCost(at, ends_at, dimensions_of(row), kind, 0, *_cents(row, "amount"))


def dimensions_of(row: Any) -> records.Dimensions:
    """The dimensions of a row; what it does not have is the usual value."""
    return records.normal_dimensions(
        _text(row, "model"),
        inference_geo=_text(row, "inference_geo"),
        service_tier=_text(row, "service_tier"),
        speed=_text(row, "speed"),
        context_window=_text(row, "context_window"),
    )


def counts_of(row: Any) -> records.Counts:
    written = row.get("cache_creation")
    searches = row.get("server_tool_use")
    found = {
        "input": _count(row, "uncached_input_tokens"),
        "output": _count(row, "output_tokens"),
        "cache_read": _count(row, "cache_read_input_tokens"),
        "cache_write_5m": _count(written, "ephemeral_5m_input_tokens") if written is not None else 0,
        "cache_write_1h": _count(written, "ephemeral_1h_input_tokens") if written is not None else 0,
        "web_search_requests": _count(searches, "web_search_requests") if searches is not None else 0,
    }
    return tuple(found[kind] for kind in records.KINDS)


def moment_of(row: Any, name: str) -> datetime:
    """A time of a row, with its time zone."""
    text = _text(row, name)
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        raise ReportUnreadable(name) from None
    if moment.tzinfo is None:
        raise ReportUnreadable(name)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ReportUnreadable(name) from None


def _kind_of(row: Any) -> str | None:
    """The kind of token that a row of costs is about; None for other costs."""
    cost_type, token_type = _text(row, "cost_type"), _text(row, "token_type")
    if cost_type == _WEB_SEARCH:
        return "web_search_requests"
    if cost_type != "tokens" or token_type is None:
        return None
    if token_type not in _TOKEN_TYPES:
        raise ReportUnreadable("token_type")
    return _TOKEN_TYPES[token_type]


def _cents(row: Mapping[str, Any], name: str) -> tuple[Decimal, Decimal]:
    """An amount of cents as dollars, and its last digit as dollars."""
    if row.get("currency") != "USD":
        raise ReportUnreadable("currency")
    text = row.get(name)
    if not isinstance(text, str) or not _AMOUNT.fullmatch(text):
        raise ReportUnreadable(name)
    cents = Decimal(text)
    return cents / _CENTS, Decimal(1).scaleb(int(cents.as_tuple().exponent)) / _CENTS


def _count(row: Any, name: str) -> int:
    value = row.get(name, 0) if isinstance(row, dict) else None
    if type(value) is not int or not 0 <= value <= MOST_COUNT:
        raise ReportUnreadable(name)
    return value


def _id(row: Any, name: str) -> str | None:
    text = _text(row, name)
    return None if text is None else identifier(text)


def _text(row: Any, name: str) -> str | None:
    value = row.get(name) if isinstance(row, dict) else 0
    if value is not None and not isinstance(value, str):
        raise ReportUnreadable(name)
    return identifier(value) if value else None


def _object(row: Any, name: str) -> dict[str, Any]:
    value = row.get(name) if isinstance(row, dict) else None
    if not isinstance(value, dict):
        raise ReportUnreadable(name)
    return value


def _list(row: Any, name: str) -> list[dict[str, Any]]:
    value = row.get(name) if isinstance(row, dict) else None
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ReportUnreadable(name)
    return value
