"""NewTurns: notices that followed sessions have a further run, whichever process has accepted it."""

import asyncio
from collections import defaultdict
from typing import Final, TypeAlias

from app.ids import AccountId
from app.platform.background import forever
from app.platform.db import Database
from app.runs.managed.repository import numbers_of_turns

CHECK_S: Final = 1.0
"""How often the database is queried, once for all followed sessions."""

_SESSIONS_PER_QUERY: Final = 5000
_Key: TypeAlias = tuple[AccountId, str]


class NewTurns:
    """Wakes those who follow a session that has nothing to do."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[_Key, set[asyncio.Future[None]]] = defaultdict(set)
        self._after: dict[asyncio.Future[None], int] = {}

    async def wait(self, account_id: AccountId, session_id: str, *, after: int) -> int | None:
        """How many turns a session has, once it is another number than this; None: it was deleted."""
        key = (account_id, session_id)
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[key].add(woken)
        self._after[woken] = after
        try:
            # What has come before it began to wait.
            async with self._database.read() as reader:
                self._wake(key, await numbers_of_turns(reader, [key]))
            await woken
        finally:
            del self._after[woken]
            self._waiting[key].discard(woken)
            if not self._waiting[key]:
                del self._waiting[key]
        async with self._database.read() as reader:
            return (await numbers_of_turns(reader, [key])).get(key)

    def notice(self, account_id: AccountId, session_id: str) -> None:
        """A session has a further turn, which this process has accepted."""
        for woken in self._waiting.get((account_id, session_id), ()):
            _set(woken)

    async def watch(self) -> None:
        """Check the followed sessions until cancelled."""
        await forever(self.check, CHECK_S, name="turns of followed sessions")

    async def check(self) -> None:
        """Wake those whose sessions have a further turn, or were deleted."""
        followed = list(self._waiting)
        for start in range(0, len(followed), _SESSIONS_PER_QUERY):
            keys = followed[start : start + _SESSIONS_PER_QUERY]
            async with self._database.read() as reader:
                found = await numbers_of_turns(reader, keys)
            for key in keys:
                self._wake(key, found)

    def _wake(self, key: _Key, found: dict[_Key, int]) -> None:
        for woken in self._waiting.get(key, ()):
            if found.get(key) != self._after[woken]:
                _set(woken)


def _set(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
