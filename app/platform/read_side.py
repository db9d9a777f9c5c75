"""ReadSide: reads that may be a little late, from the database of DATABASE_READ_URL.

Nothing that decides about money or a run is read here, and nothing that a client has just written.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeAlias, TypeVar

from app.platform.background import forever
from app.platform.db import Database, DatabaseUnavailable, StatementFailed
from app.platform.postgres.usability import AS_OF

_CHECK_S = 5.0

_NOT_OURS = "no server has ever sent a heartbeat to it, so it is none of this database"

_Found = TypeVar("_Found")

Chosen: TypeAlias = tuple[Database, datetime | None]
"""A database, and the time up to which it has everything; None: up to now."""


class ReadSide:
    """Chooses where such a read goes: to the replica, or to the primary while the replica cannot be used."""

    def __init__(self, primary: Database, replica: Database | None = None) -> None:
        self._primary, self._replica = primary, replica
        self.lag_s = 0.0
        """How far the replica was behind when it was last used."""
        self.problem: str | None = None
        """Why the replica could not be used the last time; None: it could, or there is none."""

    async def watch(self) -> None:
        """Find out again and again whether the replica can be used, until cancelled."""
        if self._replica is not None:
            await forever(self.check, _CHECK_S, name="read database")

    async def check(self) -> None:
        """Find out whether the replica can be used."""
        if self._replica is None:
            return
        try:
            await self._look(self._replica)
        except (DatabaseUnavailable, StatementFailed) as error:
            self._failed(error)

    async def choose(self) -> Chosen:
        """The database for reads that belong together."""
        if self._replica is not None and self.problem is None:
            try:
                if (as_of := await self._look(self._replica)) is not None:
                    return self._replica, as_of
            except (DatabaseUnavailable, StatementFailed) as error:
                self._failed(error)
        return self._primary, None

    async def read(self, work: Callable[[Database], Awaitable[_Found]]) -> tuple[_Found, datetime | None]:
        """What `work` finds in the database that is chosen, and the time up to which that has everything.

        `work` is called with the primary if the replica fails.
        """
        database, as_of = await self.choose()
        if database is not self._primary:
            try:
                return await work(database), as_of
            except (DatabaseUnavailable, StatementFailed) as error:
                if isinstance(error.__cause__, TimeoutError):
                    # What is too slow here would be too slow there, where it is in the way of runs.
                    raise
                self._failed(error)
        return await work(self._primary), None

    async def _look(self, replica: Database) -> datetime | None:
        async with replica.read() as reader:
            found = (await reader.execute(AS_OF)).one()
        as_of: datetime | None = found.as_of
        self.problem, self.lag_s = None if as_of else _NOT_OURS, found.lag_s or 0.0
        return as_of

    def _failed(self, error: DatabaseUnavailable | StatementFailed) -> None:
        self.problem = error.reason if isinstance(error, DatabaseUnavailable) else str(error)
