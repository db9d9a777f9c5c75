"""JSON of prices."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated

from pydantic import Field

from app.billing.prices.model_price import ModelPrice, Rate
from app.billing.prices.quote import plain
from app.http.response_model import ResponseModel

Text = Annotated[str, Field(description="An exact decimal.")]


class LongPromptRate(ResponseModel):
    """The price of all tokens of a message whose prompt is longer than this."""

    above_prompt_tokens: int
    usd_per_mtok: Annotated[Text, Field(alias="usdPerMTok")]


class RateResponse(ResponseModel):
    """Dollars per million tokens of one kind."""

    # The alias generator would make it usdPerMtok.
    usd_per_mtok: Annotated[Text, Field(alias="usdPerMTok")]
    long_prompts: list[LongPromptRate]

    @classmethod
    def of(cls, rate: Rate) -> "RateResponse":
        tiers = [
            LongPromptRate(above_prompt_tokens=above, usd_per_mtok=plain(price))
            for above, price in rate.tiers
        ]
        return cls(usd_per_mtok=plain(rate.base), long_prompts=tiers)


class PriceResponse(ResponseModel):
    """Every price of one model at a moment; a value that is not listed has no known price."""

    model: str
    price_version: str
    input: RateResponse
    output: RateResponse
    cache_read: RateResponse
    # The alias generator would make it cacheWrite5M.
    cache_write_5m: Annotated[RateResponse, Field(alias="cacheWrite5m")]
    cache_write_1h: Annotated[RateResponse, Field(alias="cacheWrite1h")]
    factors: Annotated[
        dict[str, dict[str, str]],
        Field(description="By dimension and reported value: what the prices of tokens are multiplied by."),
    ]
    server_tools: Annotated[dict[str, str], Field(description="Dollars for one use, by the counter's name.")]

    @classmethod
    def of(cls, model: str, price: ModelPrice) -> "PriceResponse":
        factors = {str(name): _plain(values) for name, values in sorted(price.extras.factors.items())}
        return cls(
            model=model,
            price_version=price.version,
            input=RateResponse.of(price.input),
            output=RateResponse.of(price.output),
            cache_read=RateResponse.of(price.cache_read),
            cache_write_5m=RateResponse.of(price.cache_write_5m),
            cache_write_1h=RateResponse.of(price.cache_write_1h),
            factors=factors,
            server_tools=_plain(price.extras.server_tools),
        )


def _plain(values: Mapping[str, Decimal]) -> dict[str, str]:
    return {name: plain(value) for name, value in sorted(values.items())}
