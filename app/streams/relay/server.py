"""Relay: this process's connections to the relay."""

import asyncio

from app.platform.background import forever
from app.streams.relay.connection import RelayConnection
from app.streams.relay.subscriptions import Subscriptions


class Relay:
    """Commands and subscriptions, shared by everything in this process that uses the relay."""

    def __init__(self, url: str, *, timeout_s: float = 5.0, check_s: float = 1.0) -> None:
        """Needs a running event loop; connects in the background and after each outage.

        `timeout_s`: how long a response may take; `check_s`: how often an idle connection is checked.
        """
        self.check_s = check_s
        self.connection = RelayConnection(url, timeout_s=timeout_s)
        self.subscriptions = Subscriptions(url, self.connection.outage, timeout_s=timeout_s, check_s=check_s)
        self._task = asyncio.create_task(forever(self.subscriptions.receive, 0, name="relay"))

    async def aclose(self) -> None:
        """Close the connections."""
        self._task.cancel()
        await asyncio.wait({self._task})
        await self.connection.aclose()
