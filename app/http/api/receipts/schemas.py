"""JSON of receipts."""

from typing import Annotated
from uuid import UUID

from pydantic import Field

from app.billing.receipts.records import Receipt
from app.http.response_model import Moment, Money, ResponseModel


class ReceiptResponse(ResponseModel):
    """The charge of one assistant message."""

    id: UUID
    source_system: str
    source_reference: str
    run_id: str
    attempt: int
    usage_unit_id: str
    account_id: UUID
    api_key_id: UUID
    graph_id: str
    executor_type: str
    model: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    # The alias generator would make it cacheWrite5MTokens.
    cache_write_5m_tokens: Annotated[int, Field(alias="cacheWrite5mTokens")]
    cache_write_1h_tokens: Annotated[int, Field(alias="cacheWrite1hTokens")]
    web_search_requests: int
    cost_usd: Money
    charged_credits: int
    price_version: str
    basis: str
    output_estimated: bool
    origin: str
    parent_tool_call_id: str | None
    ingress_request_id: str | None
    created_at: Moment
    cache_savings_usd: Money
    note: str | None

    @classmethod
    def of(cls, receipt: Receipt) -> "ReceiptResponse":
        """Build from a stored receipt."""
        return cls.model_validate(receipt)
