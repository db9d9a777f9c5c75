"""Checks what is between this machine and the database, and whether notifications pass through it."""

from app.doctor.report import Check
from app.platform.background import first_of
from app.platform.db import Database

_FOUND = {
    "ok": "notifications of runs that wait arrive",
    "polled": "notifications do not pass through it, so runs that wait are found within a second; "
    "set DATABASE_DIRECT_URL to the database past it",
    "unavailable": "no notification arrives, so runs that wait are found within a second; correct "
    "DATABASE_DIRECT_URL, which must lead past poolers in transaction mode",
}


async def check_notifications(database: Database) -> Check:
    """Listen as servers do, until it is known whether that works."""
    listening = database.listen("runtally_doctor", lambda _: None)
    await first_of(listening, database.notifications.known.wait())
    state = database.notifications.state
    between = "a connection pooler is before the database" if database.is_pooled else "no pooler is between"
    return Check("notifications", "ok" if state == "ok" else "warning", f"{between}; {_FOUND[state]}")
