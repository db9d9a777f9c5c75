"""Notifications: passes on what the database notifies of, and proves that it arrives."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias
from uuid import uuid4

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from app.platform.background import first_of
from app.platform.logs.dependency import DependencyLog
from app.platform.postgres.errors import DRIVER_ERRORS
from app.platform.postgres.prepared import as_of_sqlalchemy

log = structlog.get_logger(__name__)

ARRIVES_S = 5.0
"""How long a notification of one's own may take. Without any the database is polled all the same."""

_CHECK_S = 15.0

NotificationState: TypeAlias = Literal["unused", "ok", "polled", "unavailable"]

_DEAF = "no notification arrives"


class Notifications:
    """Those that this process listens for.

    Through a pooler `LISTEN` may succeed and nothing arrive, as it may over a connection that was dropped.
    """

    def __init__(self) -> None:
        self.state: NotificationState = "unused"
        self.known = asyncio.Event()
        """Set once it is known whether they arrive."""
        self._log = DependencyLog(
            unavailable="notifications.unavailable", available="notifications.available"
        )

    def poll(self) -> None:
        """There is no connection that could pass them on."""
        self._became("polled")
        log.warning("notifications.polled", remedy="set DATABASE_DIRECT_URL")

    def failed(self, reason: str) -> None:
        """None arrive."""
        self._became("unavailable")
        self._log.failed(reason)

    def _became(self, state: NotificationState) -> None:
        self.state = state
        self.known.set()

    async def pass_on(
        self,
        connection: AsyncConnection,
        channel: str,
        notify: Callable[[str], None],
        *,
        send: Callable[[str], Awaitable[None]],
    ) -> None:
        """Pass on the payloads of a channel until the connection is lost or none arrive.

        `send` notifies a channel over another connection, as everybody else does.
        """
        driver: Any = (await connection.get_raw_connection()).driver_connection
        lost, arrived, own = asyncio.Event(), asyncio.Event(), f"runtally_{uuid4().hex}"

        def pass_one_on(*notification: Any) -> None:
            arrived.set()
            notify(notification[-1])

        driver.add_termination_listener(lambda _: lost.set())
        try:
            async with asyncio.timeout(ARRIVES_S):
                await driver.add_listener(own, lambda *_: arrived.set())
                await driver.add_listener(channel, pass_one_on)
        except DRIVER_ERRORS as error:
            raise as_of_sqlalchemy(error, connection.dialect) from error
        while not lost.is_set() and await self._arrive(arrived, lost, send=lambda: send(own)):
            await first_of(lost.wait(), timeout_s=_CHECK_S)
        self.state = "unavailable"

    async def _arrive(
        self, arrived: asyncio.Event, lost: asyncio.Event, *, send: Callable[[], Awaitable[None]]
    ) -> bool:
        # Where others have arrived since the last time, none of one's own wakes the whole fleet.
        if not arrived.is_set():
            await send()
            await first_of(arrived.wait(), lost.wait(), timeout_s=ARRIVES_S)
        if arrived.is_set():
            self._became("ok")
            self._log.worked()
        elif not lost.is_set():
            self.failed(_DEAF)
            await first_of(lost.wait(), timeout_s=_CHECK_S)
            return False
        arrived.clear()
        return True
