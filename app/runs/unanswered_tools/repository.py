"""SQL for chats in which a message waits behind a run that waits for its client."""

from collections.abc import Sequence

from sqlalchemy import text

from app.ids import AccountId, RunId, RunKey
from app.platform.db import Reader


async def abandoned_runs(reader: Reader, waiting: Sequence[RunKey]) -> list[RunKey]:
    """Those of these runs that answer a message of a chat, and behind which a later message waits."""
    keys = {"accounts": [run.account_id for run in waiting], "ids": [run.run_id for run in waiting]}
    rows = await reader.execute(_ABANDONED, keys)
    return [RunKey(AccountId(row.account_id), RunId(row.run_id)) for row in rows]


_ABANDONED = text(
    """
    SELECT account_id, run_id FROM runs AS waiting
      JOIN unnest(CAST(:accounts AS uuid[]), CAST(:ids AS text[])) AS given (account_id, run_id)
     USING (account_id, run_id)
     WHERE message_id IS NOT NULL AND EXISTS (
           SELECT FROM runs AS later
            WHERE later.account_id = waiting.account_id AND later.state_key = waiting.state_key
              AND later.turn > waiting.turn AND later.status IN ('queued', 'running')
              AND later.message_id IS NOT NULL)
    """
)
