"""RunGrants: the grants that count for one run."""

from dataclasses import dataclass

from app.conversations.grants.records import GrantKey
from app.conversations.grants.repository import has_grant, insert_grant
from app.ids import AccountId, ApiKeyId
from app.platform.db import Database


@dataclass(frozen=True, slots=True)
class RunGrants:
    """Those of the run's conversation and graph; read for each call, so that a revoked one counts no more."""

    database: Database
    account_id: AccountId
    state_key: str
    graph_id: str

    async def covers(self, tool_id: str) -> bool:
        """Whether calls of this tool are allowed without asking."""
        async with self.database.read() as reader:
            return await has_grant(reader, self._key(tool_id))

    async def give(self, tool_id: str, *, by: ApiKeyId) -> None:
        async with self.database.write() as tx:
            await insert_grant(tx, self._key(tool_id), by=by)

    def _key(self, tool_id: str) -> GrantKey:
        return GrantKey(self.account_id, self.state_key, self.graph_id, tool_id)
