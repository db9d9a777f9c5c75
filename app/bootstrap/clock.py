"""Opens the lease, and the clock that decides prices and months, which is compared with the database's."""

from functools import partial
from typing import NoReturn

from app.platform.background import forever
from app.platform.clock.clock import Clock
from app.platform.clock.lease import Lease
from app.platform.db import Database
from app.platform.settings import Settings

INTERVAL_S = 30.0
"""How often the host's clock is compared with the database's."""


async def open_clock(database: Database) -> Clock:
    """A clock that knows the database's time, before anything is charged."""
    clock = Clock()
    await _compare(clock, database)
    return clock


def open_lease(settings: Settings) -> Lease:
    """The lease of this process: infinite with an embedded database, which no other process uses."""
    return Lease() if settings.database_url is None else Lease(settings.lease_s)


async def watch_clock(clock: Clock, database: Database) -> NoReturn:
    """Compare the clocks again until cancelled."""
    await forever(partial(_compare, clock, database), INTERVAL_S, name="clock", first_after_s=INTERVAL_S)


async def _compare(clock: Clock, database: Database) -> None:
    clock.observe("database", await database.time())
