"""AccountCalls: the calls of an account's runs that wait for an answer, whether in a process or parked."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.executors.waiting.port import WaitKind
from app.ids import AccountId
from app.platform.db import Database
from app.platform.pagination import PageRequest
from app.runs.waits.listing.records import CallFilter, OpenCall
from app.runs.waits.listing.repository import count_open, newest_open


@dataclass(frozen=True, slots=True)
class AccountCallPage:
    """A page of calls that wait, and how many there are of each kind."""

    calls: list[OpenCall]
    next_cursor: str | None
    counts: Mapping[WaitKind, int]


@dataclass(frozen=True, slots=True)
class AccountCalls:
    """Reads them from the database: any process can be asked."""

    database: Database

    async def page(self, account_id: AccountId, chosen: CallFilter, page: PageRequest) -> AccountCallPage:
        """A page, newest first; the counts are of all kinds."""
        async with self.database.snapshot() as reader:
            found = await newest_open(reader, account_id, chosen, page)
            counts = await count_open(reader, account_id, chosen)
        return AccountCallPage(*page.cut(found, lambda call: (call.requested_at, call.place)), counts)
