"""Notifications: passes on what the database notifies of, and proves that it arrives."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias
from uuid import uuid4

from sqlalchemy.ext.asyncio import AsyncConnection

from app.platform.background import first_of
from app.platform.logs.dependency import DependencyLog

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
        """`polled`: there is no connection that could pass them on."""
        self._log = DependencyLog(
            unavailable="notifications.unavailable", available="notifications.available"
        )

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
        async with asyncio.timeout(ARRIVES_S):
            await driver.add_listener(own, lambda *_: arrived.set())
            await driver.add_listener(channel, pass_one_on)
        try:
            while not lost.is_set() and await self._arrive(arrived, lost, send=lambda: send(own)):
                await first_of(lost.wait(), timeout_s=_CHECK_S)
        finally:
            self.state = "unavailable"

    async def _arrive(
        self, arrived: asyncio.Event, lost: asyncio.Event, *, send: Callable[[], Awaitable[None]]
    ) -> bool:
        # Where others have arrived since the last time, none of one's own wakes the whole fleet.
        if not arrived.is_set():
            await send()
            await first_of(arrived.wait(), lost.wait(), timeout_s=ARRIVES_S)
        if arrived.is_set():
            self.state = "ok"
            self._log.worked()
        elif not lost.is_set():
            self.state = "unavailable"
            self._log.failed(_DEAF)
            await first_of(lost.wait(), timeout_s=_CHECK_S)
            return False
        arrived.clear()
        return True
