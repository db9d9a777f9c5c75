"""UsageReading: the parts of a usage object that are priced, and unknown ones; pure."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from app.storable import identifier
from app.usage.provider import (
    CACHE_WRITES,
    FALLBACK,
    TOKEN_COUNTS,
    Reported,
    count_of,
    list_of,
    model_of_iteration,
    object_of,
    shown,
    token_usage,
)
from app.usage.records import TokenUsage

Dimension: TypeAlias = Literal["inference_geo", "service_tier", "speed"]
"""What multiplies the prices of tokens."""

DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)

ADVISOR = "advisor_message"
_OWN_PARTS = {"compaction", ADVISOR}
"""Iterations that the top-level counts do not contain."""
_SAMPLED = {"message", FALLBACK}
_SEARCHES = "web_search_requests"

_READ = {*TOKEN_COUNTS, *DIMENSIONS, "cache_creation", "server_tool_use", "iterations"}
_INFORMATIVE = {"output_tokens_details", "fallback_credit"}
"""Keys that describe other counts. A redeemed fallback credit does change the price: see `_credit`."""
_KNOWN = _READ | _INFORMATIVE
_OF_ITERATION = {*TOKEN_COUNTS, "type", "model", "cache_creation"}
_NOTHING: tuple[Any, ...] = (None, 0, "", False, [], {})


@dataclass(frozen=True, slots=True)
class PricedPart:
    """Tokens of one message that are priced together."""

    name: str
    """`message`, or the type of the iteration."""
    model: str
    usage: TokenUsage


@dataclass(frozen=True, slots=True)
class UsageReading:
    """A message's usage, split into what is priced."""

    parts: tuple[PricedPart, ...]
    factors: Mapping[Dimension, str] = field(default_factory=dict)
    server_tools: Mapping[str, int] = field(default_factory=dict)
    """Uses of the provider's own tools, by the name of their counter; also unknown counters, to
    which an operator may have given a price."""
    unknown: tuple[str, ...] = ()
    """What no price can be known for, as `key=value`."""


def read_usage(model: str, usage: TokenUsage, reported: Reported) -> UsageReading:
    """Split a message's usage. `usage` has the top-level counts; its output and searches may be estimated."""
    iterations: list[Reported] = [
        each for each in list_of(reported.get("iterations")) if isinstance(each, dict)
    ]
    sampled, odd = _sampled_parts(model, usage, iterations)
    own = [_part(each, model) for each in iterations if each.get("type") in _OWN_PARTS]
    tools, others = {**object_of(reported.get("server_tool_use"))}, _other_counters(reported)
    if usage.web_search_requests > (count_of(tools.get(_SEARCHES)) or 0):
        # Of a message that was cut off: searches that the provider had begun and not reported.
        tools[_SEARCHES] = usage.web_search_requests
    return UsageReading(
        parts=(*sampled, *own),
        factors={name: text for name in DIMENSIONS if (text := factor_value(reported.get(name)))},
        server_tools={
            identifier(name): count
            for name, value in {**tools, **others}.items()
            if (count := count_of(value))
        },
        unknown=(*_unknown_keys(reported, iterations, others), *odd),
    )


def _sampled_parts(
    model: str, usage: TokenUsage, iterations: list[Reported]
) -> tuple[list[PricedPart], list[str]]:
    """The parts of the top-level counts, and what cannot be explained.

    If the iterations add up to the top-level counts, each is priced by its own model and its own length.
    Otherwise the counts are those of the model that served the message; hops of other models before it
    are charged apart, unless they were refused without output, which the provider does not charge.
    """
    whole = PricedPart("message", model, usage)
    sampled = [_part(each, model) for each in iterations if each.get("type") in _SAMPLED]
    if not sampled:
        return [whole], []
    unexplained = f"iterations={len(sampled)} do not add up to the counts of the message"
    if _same_prompt(sampled, usage):
        if sum(part.usage.output_tokens for part in sampled) > usage.output_tokens:
            return [whole], [unexplained]
        return _with_output(sampled, usage), []
    serving = [part for part in sampled if part.model == model]
    declined = [part for part in sampled if part.model != model and part.usage.output_tokens]
    if _same_prompt(serving, usage) or len(serving) == len(sampled):
        return [whole, *declined], []
    return [whole, *declined], [unexplained]


def _same_prompt(parts: list[PricedPart], usage: TokenUsage) -> bool:
    kinds = ("input_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens")
    return all(sum(getattr(part.usage, kind) for part in parts) == getattr(usage, kind) for kind in kinds)


def _with_output(parts: list[PricedPart], usage: TokenUsage) -> list[PricedPart]:
    """The parts with the message's output and searches: the last part has what the others do not."""
    *others, last = parts
    output = usage.output_tokens - sum(part.usage.output_tokens for part in others)
    counts = TokenUsage(
        input_tokens=last.usage.input_tokens,
        output_tokens=output,
        cache_read_tokens=last.usage.cache_read_tokens,
        cache_write_5m_tokens=last.usage.cache_write_5m_tokens,
        cache_write_1h_tokens=last.usage.cache_write_1h_tokens,
    )
    return [*others, PricedPart(last.name, last.model, counts)]


def _part(iteration: Reported, model: str) -> PricedPart:
    return PricedPart(str(iteration["type"]), model_of_iteration(iteration) or model, token_usage(iteration))


def _other_counters(reported: Reported) -> dict[str, int]:
    """Counters beside those that are read; one that has the name of a tool's counter could be anything."""
    names = reported.keys() - _KNOWN - object_of(reported.get("server_tool_use")).keys()
    return {name: count for name in sorted(names) if (count := count_of(reported[name]))}


def _unknown_keys(reported: Reported, iterations: list[Reported], others: Mapping[str, int]) -> Iterator[str]:
    """What is not read; `others` are the counters that may have a price."""
    for name, value in reported.items():
        if name in TOKEN_COUNTS:
            if _is_invalid(value):
                yield f"{name}={shown(value)}"
        elif name not in _KNOWN and name not in others and value not in _NOTHING:
            yield f"{identifier(name)}={shown(value)}"
    yield from _unknown_writes("cache_creation", reported)
    yield from _nested_unknown("server_tool_use", reported.get("server_tool_use"), None)
    yield from _credit(object_of(object_of(reported.get("fallback_credit")).get("status")))
    for each in iterations:
        yield from _unknown_of_iteration(each)
    if len(iterations) != len(list_of(reported.get("iterations"))):
        yield "iterations=not objects"


def _unknown_of_iteration(iteration: Reported) -> Iterator[str]:
    kind = iteration.get("type")
    if kind not in _SAMPLED | _OWN_PARTS:
        yield f"iterations.type={shown(kind)}"
        return
    for name, value in iteration.items():
        if name in TOKEN_COUNTS:
            if _is_invalid(value):
                yield f"iterations.{name}={shown(value)}"
        elif name not in _OF_ITERATION and value not in _NOTHING:
            yield f"iterations.{identifier(name)}={shown(value)}"
    yield from _unknown_writes("iterations.cache_creation", iteration)


def _unknown_writes(name: str, counts: Reported) -> Iterator[str]:
    """What is unknown of cache writes: their breakdown may be incomplete, but not more than their sum."""
    breakdown = counts.get("cache_creation")
    yield from _nested_unknown(name, breakdown, CACHE_WRITES)
    written = count_of(counts.get("cache_creation_input_tokens"))
    if written is not None:
        parts = sum(count_of(each) or 0 for each in map(object_of(breakdown).get, CACHE_WRITES))
        if parts > written:
            yield f"{name}={parts} of {written} tokens"


def _nested_unknown(name: str, value: Any, known: Collection[str] | None) -> Iterator[str]:
    """Unknown keys of a nested object and invalid counts; `known` None: every count is read."""
    if not isinstance(value, dict):
        if value not in _NOTHING:
            yield f"{name}={shown(value)}"
        return
    for key, count in value.items():
        is_read = known is None or key in known
        if _is_invalid(count) if is_read else count not in _NOTHING:
            yield f"{name}.{identifier(key)}={shown(count)}"


def _is_invalid(count: Any) -> bool:
    return count is not None and count_of(count) is None


def _credit(status: Reported) -> Iterator[str]:
    """A redeemed credit shifts the price of a retry, by an amount that the usage does not show."""
    if status and status.get("type") != "not_applied":
        yield f"fallback_credit={shown(status.get('type'))}"


def factor_value(value: Any) -> str | None:
    """A value of a dimension as text; None if the provider reported none."""
    if isinstance(value, str):
        return identifier(value) if value else None
    return None if value in _NOTHING else identifier(shown(value))
