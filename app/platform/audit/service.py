"""AuditLog: reads what was done to accounts."""

import socket

from app.platform.audit.records import Actor, AuditEntry, AuditFilter
from app.platform.audit.repository import find_entries
from app.platform.db import Database
from app.platform.pagination import PageRequest


def command_actor() -> Actor:
    """The user of a command on this host."""
    return Actor("command", address=socket.gethostname())


class AuditLog:
    """Entries are written by the services that change something, with `record_change`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_entries(
        self, chosen: AuditFilter, page: PageRequest
    ) -> tuple[list[AuditEntry], str | None]:
        """Entries that are chosen, newest first, and the cursor of the next page."""
        async with self._database.read() as reader:
            found = await find_entries(reader, chosen, page)
        return page.cut(found, lambda entry: (entry.at, entry.id))
