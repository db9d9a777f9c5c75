"""SQL for the tokens that keys have used."""

from collections.abc import Mapping

from sqlalchemy import text

from app.billing.budgets.repository import TOKEN_COUNTS
from app.ids import AccountId, ApiKeyId
from app.platform.db import Reader

# Messages that take longer than ten minutes are not found: receipts are indexed by their beginning.
_WAIT = text(
    f"""
    WITH limited AS (
        SELECT * FROM unnest(CAST(:keys AS uuid[]), CAST(:most AS bigint[])) AS each (key, most)
    ), used AS (
        SELECT limited.most, receipt.created_at,
               sum({" + ".join(f"receipt.{name}" for name in TOKEN_COUNTS)})
                   OVER (PARTITION BY limited.key ORDER BY receipt.created_at DESC, receipt.id DESC) AS tokens
          FROM limited
          JOIN api_keys AS sharing
            ON sharing.account_id = :account_id
           AND sharing.limits @> jsonb_build_array(jsonb_build_object('of', limited.key))
          JOIN charge_receipts AS receipt
            ON receipt.account_id = :account_id AND receipt.api_key_id = sharing.id
           AND receipt.used_at > now() - interval '10 minutes'
           AND receipt.created_at > now() - interval '1 minute' AND receipt.basis <> 'adjustment'
    )
    SELECT coalesce(extract(epoch FROM max(created_at) + interval '1 minute' - now()), 0)
      FROM used WHERE tokens >= most
    """  # noqa: S608 - names of columns
)
"""The newest receipt with which those since it reach a limit has to be a minute old."""


async def seconds_until_left(reader: Reader, account_id: AccountId, limits: Mapping[ApiKeyId, int]) -> float:
    """Until all of these keys, each with those made with it, have used less in a minute than they may."""
    given = {"account_id": account_id, "keys": list(limits), "most": list(limits.values())}
    return float((await reader.execute(_WAIT, given)).scalar_one())
