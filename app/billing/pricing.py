"""Usage -> money; pure, `Decimal` all the way.

The price list is genai-prices: kept, offline and dated. It is imported here and nowhere else.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_HALF_UP, Decimal

from genai_prices import calc_price
from genai_prices.types import Usage

from app.errors import AppError
from app.usage import TokenUsage

CREDITS_PER_DOLLAR = 10_000_000
WEB_SEARCH_USD = Decimal("0.01")

_COST_STEP = Decimal("0.0000000001")
_PREFIX = re.compile(r"^anthropic/")
_SUFFIX = re.compile(r"\[1m\]$")


class UnknownPrice(AppError):
    """There is no price for this model."""

    code = "model_not_priced"


@dataclass(frozen=True, slots=True)
class Charge:
    """What one message costs."""

    cost_usd: Decimal
    """The provider's price, to ten decimals."""
    charged_credits: int


def cost_of(model: str, usage: TokenUsage, *, at: datetime) -> Decimal:
    """The provider's price of these tokens in dollars, exact; raises `UnknownPrice`."""
    tokens = Usage(
        # The library wants totals: input includes the cache, cache writes include the 1-hour ones.
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_5m_tokens + usage.cache_write_1h_tokens,
        cache_write_1h_tokens=usage.cache_write_1h_tokens,
    )
    try:
        price = calc_price(tokens, _plain(model), provider_id="anthropic", genai_request_timestamp=at)
    except LookupError as error:
        raise UnknownPrice from error
    return price.total_price + WEB_SEARCH_USD * usage.web_search_requests


def charge(cost: Decimal, *, markup: Decimal) -> Charge:
    """The charge for an exact cost: credits are rounded once, up."""
    credits_exact = cost * markup * CREDITS_PER_DOLLAR
    return Charge(
        cost_usd=cost.quantize(_COST_STEP, ROUND_HALF_UP),
        charged_credits=int(credits_exact.to_integral_value(ROUND_CEILING)),
    )


def is_priced(model: str) -> bool:
    """Whether messages of this model can be charged."""
    try:
        calc_price(Usage(input_tokens=1, output_tokens=1), _plain(model), provider_id="anthropic")
    except LookupError:
        return False
    return True


def _plain(model: str) -> str:
    """The id as the price list knows it."""
    return _SUFFIX.sub("", _PREFIX.sub("", model))
