"""JSON of usage reports: tokens and credits as integers, dollars as decimal strings."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Self

from pydantic import Field

from app.billing.reports.records import GroupBy, UsageBreakdown, UsageSums
from app.billing.reports.service import UsageQuery
from app.http.response_model import AsOf, Money, ResponseModel
from app.usage.records import MissCause


class UsageResponse(ResponseModel):
    """Sums of tokens and charges."""

    receipts: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_5m_tokens: Annotated[int, Field(alias="cacheWrite5mTokens")]
    cache_write_1h_tokens: Annotated[int, Field(alias="cacheWrite1hTokens")]
    cost_usd: Money
    charged_credits: int
    cache_savings_usd: Money
    """Difference between cache reads and uncached input, at the provider's prices."""
    cache_miss_usd: Money
    """What was paid for prompts that should have been read from the cache; see `cacheMiss` of receipts."""
    web_search_requests: int
    web_fetch_requests: int

    @classmethod
    def total(cls, found: Sequence[UsageBreakdown]) -> Self:
        """The sum of all groups."""
        rows = [asdict(each.sums) for each in found]
        return cls(**{name: sum(row[name] for row in rows) for name in UsageSums.__dataclass_fields__})


class _Grouped(ResponseModel):
    group: str | None


class UsageGroup(UsageResponse, _Grouped):
    """The sums of an hour, a day, a model, a graph, a key, an account, an end user or a tag's value.

    `group` is null for the sum of the end users or values beyond `top`, and without one.
    """


class _Split(ResponseModel):
    split: str | None


class UsagePart(UsageResponse, _Split, _Grouped):
    """The sums of a part of a group; `split` is null for the sum of the parts beyond `top`."""


class UsageReportResponse(ResponseModel):
    """Sums by group, and the total."""

    group_by: GroupBy | None
    split_by: GroupBy | None
    time_zone: str
    items: Sequence[UsagePart] | Sequence[UsageGroup]
    next_cursor: str | None = None
    total: UsageResponse
    as_of: AsOf = None

    @classmethod
    def of(
        cls, query: UsageQuery, found: Sequence[UsageBreakdown], as_of: datetime | None
    ) -> "UsageReportResponse":
        return cls(
            group_by=query.group_by,
            split_by=query.split_by,
            time_zone=query.time_zone,
            items=_items(query, found),
            total=UsageResponse.total(found),
            as_of=as_of,
        )


class CacheMissesResponse(ResponseModel):
    """The misses of the prompt cache that have one cause, of one graph and model."""

    graph_id: str
    model: str
    cause: Annotated[MissCause, Field(description="As in `cacheMiss` of receipts.")]
    part: Annotated[str | None, Field(description="What changed: `tools`, `system` or `messages`.")]
    receipts: int
    missed_tokens: Annotated[int, Field(description="Tokens that were expected in the cache, and not read.")]
    cost_usd: Annotated[
        Money, Field(description="What they cost more than reads; adds up to `cacheMissUsd`.")
    ]


def _items(query: UsageQuery, found: Sequence[UsageBreakdown]) -> Sequence[UsagePart] | Sequence[UsageGroup]:
    if query.split_by is not None:
        return [UsagePart(group=each.group, split=each.part, **asdict(each.sums)) for each in found]
    if query.group_by is not None:
        return [UsageGroup(group=each.group, **asdict(each.sums)) for each in found]
    return []
