"""Fleet: the workers on one database and what waits for them, for operators."""

from dataclasses import dataclass

from app.ids import RunKey
from app.platform.db import Database
from app.runs.commands.service import RunNotFound
from app.runs.fleet.records import ExecutedAttempt, FleetSnapshot
from app.runs.fleet.repository import executed_attempts, fleet_workers, queue_of_accounts, snapshot_time

LISTED_ACCOUNTS = 100
MAX_LISTED_ACCOUNTS = 1000


@dataclass(frozen=True, slots=True)
class Fleet:
    """Reads the state of all processes from the database, so any process can answer."""

    database: Database

    async def snapshot(self, *, accounts: int = LISTED_ACCOUNTS) -> FleetSnapshot:
        """Everything at one moment; at most so many `accounts` are listed."""
        async with self.database.snapshot() as reader:
            totals, listed = await queue_of_accounts(reader, limit=accounts)
            return FleetSnapshot(
                at=await snapshot_time(reader),
                workers=await fleet_workers(reader),
                totals=totals,
                accounts=listed,
            )

    async def attempts(self, run: RunKey) -> list[ExecutedAttempt]:
        async with self.database.snapshot() as reader:
            if found := await executed_attempts(reader, run):
                return found
        raise RunNotFound
