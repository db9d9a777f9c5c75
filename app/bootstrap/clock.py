"""Opens the clock that decides prices and months, and compares it with the database's."""

from functools import partial
from typing import NoReturn

from app.background import forever
from app.clock.clock import Clock
from app.db import Database

INTERVAL_S = 30.0
"""How often the host's clock is compared with the database's."""


async def open_clock(database: Database) -> Clock:
    """A clock that knows the database's time, before anything is charged."""
    clock = Clock()
    await _compare(clock, database)
    return clock


async def watch_clock(clock: Clock, database: Database) -> NoReturn:
    """Compare the clocks until cancelled."""
    await forever(partial(_compare, clock, database), INTERVAL_S, name="clock")


async def _compare(clock: Clock, database: Database) -> None:
    clock.observe("database", await database.time())
