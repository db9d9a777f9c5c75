"""Limits of the tokens that a key, with all keys that were made with it, uses in a minute."""

import math

from app.billing.token_rates.repository import seconds_until_left
from app.errors import TooMany
from app.platform.db import Reader
from app.requests.principal import Principal


class TokensUsedUp(TooMany):
    """This API key, or one that it was made with, has used all its tokens of a minute; try again later."""


async def require_tokens(reader: Reader, caller: Principal) -> None:
    """Raise `TokensUsedUp` if the messages charged in the last minute, in all processes, reach a limit."""
    limits = {
        limit.of: limit.tokens_per_minute
        for limit in caller.terms.limits
        if limit.tokens_per_minute is not None
    }
    wait_s = await seconds_until_left(reader, caller.account_id, limits) if limits else 0
    if wait_s > 0:
        raise TokensUsedUp(retry_after_s=math.ceil(wait_s))
