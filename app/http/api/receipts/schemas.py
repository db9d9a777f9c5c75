"""JSON of receipts."""

from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from app.http.response_model import Moment, Money, ResponseModel
from app.usage.records import MissCause


class ReceiptLineResponse(ResponseModel):
    """One thing that is charged: `quantity` times `unitPriceUsd` is `amountUsd`, exactly."""

    part: Annotated[str, Field(description="`message`, or the type of an iteration charged apart.")]
    kind: Annotated[
        str,
        Field(description="A kind of token, a tool's counter, or a factor, such as `inference_geo:us`."),
    ]
    model: str
    quantity: Annotated[str, Field(description="Tokens or uses; of a factor, the dollars it multiplies.")]
    unit_price_usd: Annotated[str, Field(description="Dollars for one; of a factor, the factor minus 1.")]
    amount_usd: str


class CacheMissResponse(ResponseModel):
    """Tokens that the request before had in the provider's cache, and that were not read from it."""

    cause: Annotated[
        MissCause,
        Field(
            description="`changed`: see `part`; `model`: another model; `parameters`: another option of the "
            "request; `expired`: the time to live had passed; `too_far`: more content blocks were added than "
            "the provider looks back; `not_found`: nothing changed."
        ),
    ]
    part: Annotated[
        str | None, Field(description="The first part of the prompt that changed, for example `messages[4]`.")
    ]
    expected_tokens: Annotated[int, Field(description="What the request before had read or written.")]
    read_tokens: int
    idle_s: Annotated[int, Field(description="Seconds since the request before.")]


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
    used_at: Moment
    requested_model: str | None
    stop_reason: str | None
    inference_geo: str | None
    service_tier: str | None
    speed: str | None
    provider_request_id: str | None
    provider_organization_id: str | None
    provider_workspace_id: str | None
    provider_usage: Annotated[dict[str, Any], Field(description="The provider's usage object, as it was.")]
    lines: Annotated[list[ReceiptLineResponse], Field(description="They add up to the exact cost.")]
    cache_miss: CacheMissResponse | None
    cache_miss_usd: Annotated[Money, Field(description="What the miss cost against a cache read.")]
    unpriced: Annotated[
        list[str], Field(description="What has no known price and is not part of the cost, as `name=value`.")
    ]
    end_user: str | None
    tags: dict[str, str] | None
