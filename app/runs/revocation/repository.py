"""SQL for which API key started which runs."""

from sqlalchemy import select

from app.conversations.records import Conversation
from app.ids import AccountId, ApiKeyId, RunId, RunKey
from app.platform.db import Reader
from app.requests.principal import Principal
from app.runs.records import UNFINISHED
from app.runs.tables import runs


async def is_shared(reader: Reader, conversation: Conversation, caller: Principal) -> bool:
    """Whether another API key started a run of this conversation, or of an earlier one with its state key.

    For a token: whether one of these runs is not for its end user.
    """
    is_other = (
        runs.c.api_key_id != caller.api_key_id
        if caller.end_user is None
        else runs.c.end_user.is_distinct_from(caller.end_user)
    )
    others = select(runs.c.run_id).where(
        runs.c.account_id == conversation.account_id, runs.c.state_key == conversation.state_key, is_other
    )
    return bool((await reader.execute(select(others.exists()))).scalar_one())


async def unfinished_runs_of(
    reader: Reader, *, api_key_id: ApiKeyId | None, account_id: AccountId | None
) -> list[RunKey]:
    """Unfinished runs that an API key started, or of an account."""
    is_chosen = runs.c.account_id == account_id if api_key_id is None else runs.c.api_key_id == api_key_id
    statement = select(runs.c.account_id, runs.c.run_id).where(is_chosen, runs.c.status.in_(UNFINISHED))
    return [RunKey(AccountId(row.account_id), RunId(row.run_id)) for row in await reader.execute(statement)]
