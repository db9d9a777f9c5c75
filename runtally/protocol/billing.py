"""What runs cost, as the server responds: money as `Decimal`, times as aware `datetime`."""

from decimal import Decimal
from typing import Annotated

from pydantic import AwareDatetime, Field

from runtally.model import Model


class ReceiptLine(Model):
    """One thing that is charged: `quantity` times `unit_price_usd` is `amount_usd`, exactly."""

    part: str
    kind: str
    model: str
    quantity: Decimal
    unit_price_usd: Decimal
    amount_usd: Decimal


class Receipt(Model):
    """The charge of one assistant message; all other fields are in `model_extra`."""

    id: str
    run_id: str
    attempt: int
    usage_unit_id: str
    source_reference: str
    graph_id: str
    model: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    # The alias generator would make it cacheWrite5MTokens.
    cache_write_5m_tokens: Annotated[int, Field(alias="cacheWrite5mTokens")]
    cache_write_1h_tokens: Annotated[int, Field(alias="cacheWrite1hTokens")]
    web_search_requests: int
    cost_usd: Decimal
    charged_credits: int
    price_version: str
    basis: str
    origin: str
    parent_tool_call_id: str | None = None
    used_at: AwareDatetime
    created_at: AwareDatetime
    lines: tuple[ReceiptLine, ...] = ()
    unpriced: tuple[str, ...] = ()
    note: str | None = None


class UsageSums(Model):
    """Sums of tokens and charges."""

    receipts: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_5m_tokens: Annotated[int, Field(alias="cacheWrite5mTokens")]
    cache_write_1h_tokens: Annotated[int, Field(alias="cacheWrite1hTokens")]
    cost_usd: Decimal
    charged_credits: int
    web_search_requests: int = 0
    web_fetch_requests: int = 0


class UsageItem(UsageSums):
    """The sums of a group; of a part of it if the report is split. None: of what is not listed."""

    group: str | None
    split: str | None = None


class UsageReport(Model):
    """Sums by group, and the total."""

    group_by: str | None = None
    split_by: str | None = None
    time_zone: str
    items: tuple[UsageItem, ...]
    total: UsageSums


class TopUp(Model):
    """When the account requests more credit from webhooks, and when it last did."""

    below_usd: Decimal
    amount_usd: Decimal
    per_day: int
    requested_at: AwareDatetime | None = None


class Balance(Model):
    """An account's credit, in credits and dollars; `available` is None without a limit."""

    mode: str
    granted: int
    adjusted: int
    spent: int
    reserved: int
    left: int
    available: int | None = None
    month_spent: int
    granted_usd: Decimal
    spent_usd: Decimal
    left_usd: Decimal
    top_up: TopUp | None = None
