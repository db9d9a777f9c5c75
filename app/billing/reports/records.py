"""Sums of usage, and the conditions and groups of a sum."""

import re
from dataclasses import dataclass, fields
from datetime import datetime
from decimal import Decimal
from typing import Annotated, TypeAlias
from uuid import UUID

from pydantic import AfterValidator, WithJsonSchema

from app.requests.attribution import ANY_LABELS, TAG_NAME, TAG_PREFIX, LabelFilter
from app.usage.records import MissCause

_GROUPS = ("hour", "day", "model", "graph", "provider", "key", "account", "endUser")
_GROUP = re.compile(rf"(?:{'|'.join(_GROUPS)}|{TAG_PREFIX}{TAG_NAME})")


def _require_group(name: str) -> str:
    if _GROUP.fullmatch(name) is None:
        message = f"must be one of {', '.join(_GROUPS)}, or {TAG_PREFIX} and the name of a tag"
        raise ValueError(message)
    return name


GroupBy: TypeAlias = Annotated[
    str,
    AfterValidator(_require_group),
    WithJsonSchema({"type": "string", "pattern": f"^{_GROUP.pattern}$"}),
]
"""`tag:` and the name of a tag: by its values."""


@dataclass(frozen=True, slots=True)
class UsageSums:
    """Sums over receipts; each field is a column of rollups, and most are columns of receipts."""

    receipts: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    charged_credits: int = 0
    cache_savings_usd: Decimal = Decimal(0)
    cache_miss_usd: Decimal = Decimal(0)
    web_search_requests: int = 0
    web_fetch_requests: int = 0

    def minus(self, part: "UsageSums") -> "UsageSums":
        """What remains of these sums without a part of them."""
        names = [each.name for each in fields(self)]
        return UsageSums(**{name: getattr(self, name) - getattr(part, name) for name in names})


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """Conditions on an account's usage; None matches any value."""

    since: datetime | None = None
    until: datetime | None = None
    """Exclusive."""
    model: str | None = None
    graph_id: str | None = None
    api_key_id: UUID | None = None
    labels: LabelFilter = ANY_LABELS


@dataclass(frozen=True, slots=True)
class CacheMissSums:
    """The misses of the prompt cache that have one cause, of one graph and model."""

    graph_id: str
    model: str
    cause: MissCause
    part: str | None
    """What changed: `tools`, `system` or `messages`."""
    receipts: int
    missed_tokens: int
    cost_usd: Decimal
    """What they cost against reads of the cache, at corrected prices."""


@dataclass(frozen=True, slots=True)
class UsageBreakdown:
    """The sums of one group, or of one part of a group.

    `part` is None for a whole group, and for the sum of all parts that are not among the largest; `group` is
    None for that of all groups that are not.
    """

    group: str | None
    sums: UsageSums
    part: str | None = None
