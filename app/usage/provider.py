"""The provider's usage object: made storable, merged and counted; pure.

The whole object is kept, because every part of it may have a price. It is hostile input: a count may be
anything, an unknown key may be added, and the object may be huge.
"""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import structlog

from app.storable import identifier, storable
from app.usage.records import TokenUsage, WebTool

log = structlog.get_logger(__name__)

Reported = Mapping[str, Any]
"""A usage object as JSON."""

MOST_TOKENS = 1_000_000_000
"""Limit per message and kind: above any context window, far below what sums can hold."""

MOST_BYTES = 64 * 1024
"""Limit of a usage object as JSON: that of a message with about 250 iterations."""

OVERSIZED = "oversized"
"""The key that stands for the rest of an object over the limit; it has no price."""

TOKEN_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)
CACHE_WRITES = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
FALLBACK = "fallback_message"
"""The type of the iteration of a model that answered instead of the requested one."""

_NESTED = ("cache_creation", "server_tool_use")
_KEPT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "cache_creation")
_INVALID = "_invalid"
_SHORT = (*TOKEN_COUNTS, *_NESTED, "inference_geo", "service_tier", "speed")
_SHORT_BYTES = 1024
_COUNT_SUFFIXES = ("_tokens", "_requests")
_SHOWN_CHARS = 60


def clean_usage(usage: Any) -> dict[str, Any]:
    """The usage object as it can be stored; unambiguous counts (`"12"`, `12.0`) become integers."""
    if not isinstance(usage, dict):
        return {}
    return _bounded(_with_counts(storable(usage)))


def count_of(value: Any) -> int | None:
    """A valid count, or None."""
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def merge_usage(start: Reported, delta: Reported) -> dict[str, Any]:
    """The usage of `message_start` updated with that of a `message_delta`, following the API.

    Input and cache counts are only replaced by positive values (a delta may repeat them as null or
    zero); everything else by any value that is not null, also each counter of the provider's tools.
    What is no count does not replace one: it is kept beside it, as `NAME_invalid`, until a valid count
    arrives.
    """
    usage = dict(start)
    for name, value in delta.items():
        if value is None:
            continue
        if not _is_valid(name, value):
            usage[f"{name}{_INVALID}"] = value
        elif not (name in _KEPT and _is_zero(value)):
            usage[name] = _updated(usage.get(name), value) if name == "server_tool_use" else value
            usage.pop(f"{name}{_INVALID}", None)
    # Each of many deltas may add other keys.
    return _bounded(usage)


def token_usage(reported: Reported) -> TokenUsage:
    """The counts of a usage object; invalid ones are 0, cache writes without a breakdown 5-minute ones."""
    breakdown = object_of(reported.get("cache_creation"))
    one_hour = count_of(breakdown.get("ephemeral_1h_input_tokens")) or 0
    five_minutes = count_of(breakdown.get("ephemeral_5m_input_tokens")) or 0
    written = count_of(reported.get("cache_creation_input_tokens"))
    if written is not None:
        one_hour = min(one_hour, written)
        five_minutes = written - one_hour
    return TokenUsage(
        input_tokens=count_of(reported.get("input_tokens")) or 0,
        output_tokens=count_of(reported.get("output_tokens")) or 0,
        cache_read_tokens=count_of(reported.get("cache_read_input_tokens")) or 0,
        cache_write_5m_tokens=five_minutes,
        cache_write_1h_tokens=one_hour,
        web_search_requests=count_of(object_of(reported.get("server_tool_use")).get("web_search_requests"))
        or 0,
    )


def web_uses(usage: TokenUsage, reported: Reported) -> Counter[WebTool]:
    """How often a message has used the web."""
    fetched = object_of(reported.get("server_tool_use")).get("web_fetch_requests")
    return Counter({"web_search": usage.web_search_requests, "web_fetch": count_of(fetched) or 0})


def sampled_counts(reported: Reported, usage: TokenUsage) -> list[TokenUsage]:
    """The counts of each time that the model read the prompt; `usage` has the sum of all.

    Between two of them the provider ran one of its own tools.
    """
    iterations = [object_of(each) for each in list_of(reported.get("iterations"))]
    counts = [token_usage(each) for each in iterations if each.get("type") == "message"]
    return counts or [usage]


def lacks_count(reported: Reported, name: str) -> bool:
    """Whether the provider reported no valid count of this name."""
    return f"{name}{_INVALID}" in reported or count_of(reported.get(name)) is None


def omits_count(reported: Reported, name: str) -> bool:
    """Whether the provider reported nothing under this name."""
    return f"{name}{_INVALID}" not in reported and reported.get(name) is None


def highest_usage(one: Reported, other: Reported) -> dict[str, Any]:
    """Two usage objects of one message, with the higher of their counts; else the later value."""
    merged = merge_usage(one, other)
    for name in TOKEN_COUNTS:
        counts = [count for each in (one, other) if (count := count_of(each.get(name))) is not None]
        if counts:
            merged[name] = max(counts)
    return merged


def served_by(reported: Reported) -> str | None:
    """The model that answered instead of the requested one, if the provider fell back to it."""
    for each in reversed(list_of(reported.get("iterations"))):
        if object_of(each).get("type") == FALLBACK:
            return model_of_iteration(each)
    return None


def model_of_iteration(iteration: Any) -> str | None:
    """The model that an iteration names."""
    model = object_of(iteration).get("model")
    return identifier(model) if isinstance(model, str) and model else None


def list_of(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def object_of(value: Any) -> Reported:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def shown(value: Any) -> str:
    """A value of the provider for a log line or a receipt, cut to a readable length."""
    return json.dumps(value)[:_SHOWN_CHARS]


def _bounded(usage: dict[str, Any]) -> dict[str, Any]:
    """The object, or what is short of its known keys if it is over the limit."""
    if len(json.dumps(usage)) <= MOST_BYTES:
        return usage
    log.error("usage.oversized", keys=len(usage))
    known = {name: usage[name] for name in _SHORT if name in usage}
    short = {name: value for name, value in known.items() if len(json.dumps(value)) <= _SHORT_BYTES}
    return {**short, OVERSIZED: True}


def _is_valid(name: str, value: Any) -> bool:
    if name in TOKEN_COUNTS:
        return count_of(value) is not None
    if name in _NESTED:
        return isinstance(value, dict) and all(
            count is None or count_of(count) is not None for count in value.values()
        )
    return True


def _updated(counters: Any, later: Reported) -> Reported:
    """Counters with the later ones that are not null."""
    return {**object_of(counters), **{name: value for name, value in later.items() if value is not None}}


def _is_zero(value: Any) -> bool:
    return not (any(value.values()) if isinstance(value, dict) else value)


def _with_counts(usage: Reported) -> dict[str, Any]:
    cleaned = {
        name: _as_count(value) if name.endswith(_COUNT_SUFFIXES) else value for name, value in usage.items()
    }
    for name in _NESTED:
        if isinstance(cleaned.get(name), dict):
            cleaned[name] = {key: _as_count(value) for key, value in cleaned[name].items()}
    if isinstance(cleaned.get("iterations"), list):
        cleaned["iterations"] = [
            _with_counts(each) if isinstance(each, dict) else each for each in cleaned["iterations"]
        ]
    return cleaned


def _as_count(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= len(str(MOST_TOKENS)):
        return int(value)
    return value
