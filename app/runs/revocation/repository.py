"""The SQL of which API key has started which runs."""

from sqlalchemy import select

from app.conversations.repository import Conversation
from app.db import Reader
from app.ids import AccountId, ApiKeyId, RunId, RunKey
from app.runs.repository import UNFINISHED
from app.runs.tables import runs


async def is_shared(reader: Reader, conversation: Conversation, api_key_id: ApiKeyId) -> bool:
    """Whether another API key has started a run of this conversation, or of one that had its key before."""
    others = select(runs.c.run_id).where(
        runs.c.account_id == conversation.account_id,
        runs.c.state_key == conversation.state_key,
        runs.c.api_key_id != api_key_id,
    )
    return bool((await reader.execute(select(others.exists()))).scalar_one())


async def unfinished_runs_of(reader: Reader, api_key_id: ApiKeyId) -> list[RunKey]:
    """Runs that an API key has started and that have not ended."""
    statement = select(runs.c.account_id, runs.c.run_id).where(
        runs.c.api_key_id == api_key_id, runs.c.status.in_(UNFINISHED)
    )
    return [RunKey(AccountId(row.account_id), RunId(row.run_id)) for row in await reader.execute(statement)]
