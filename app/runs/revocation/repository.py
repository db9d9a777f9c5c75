"""SQL for which API key started which runs."""

from sqlalchemy import select

from app.conversations.records import Conversation
from app.ids import AccountId, ApiKeyId, RunId, RunKey
from app.platform.db import Reader
from app.runs.records import UNFINISHED
from app.runs.tables import runs


async def is_shared(reader: Reader, conversation: Conversation, api_key_id: ApiKeyId) -> bool:
    """Whether another API key started a run of this conversation, or of an earlier one with its state key."""
    others = select(runs.c.run_id).where(
        runs.c.account_id == conversation.account_id,
        runs.c.state_key == conversation.state_key,
        runs.c.api_key_id != api_key_id,
    )
    return bool((await reader.execute(select(others.exists()))).scalar_one())


async def unfinished_runs_of(
    reader: Reader, *, api_key_id: ApiKeyId | None, account_id: AccountId | None
) -> list[RunKey]:
    """Unfinished runs that an API key started, or of an account."""
    is_chosen = runs.c.account_id == account_id if api_key_id is None else runs.c.api_key_id == api_key_id
    statement = select(runs.c.account_id, runs.c.run_id).where(is_chosen, runs.c.status.in_(UNFINISHED))
    return [RunKey(AccountId(row.account_id), RunId(row.run_id)) for row in await reader.execute(statement)]
