"""SQL for the tokens that keys have used."""

from collections.abc import Mapping

from sqlalchemy import text

from app.ids import AccountId, ApiKeyId
from app.platform.db import Reader

_WAIT = text("SELECT seconds_until_tokens(:account_id, :keys, :most)")


async def seconds_until_left(reader: Reader, account_id: AccountId, limits: Mapping[ApiKeyId, int]) -> float:
    """Until all of these keys, each with those made with it, have used less in a minute than they may."""
    given = {"account_id": account_id, "keys": list(limits), "most": list(limits.values())}
    seconds: float = (await reader.execute(_WAIT, given)).scalar_one()
    return seconds
