"""EventLoopLag: how late this process's event loop is."""

import asyncio
from functools import partial
from typing import NoReturn

from prometheus_client import CollectorRegistry, Histogram

from app.platform.metrics.families import NAMESPACE

INTERVAL_S = 0.25
_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class EventLoopLag:
    """Sleeps, and measures by how much longer that took: for so long everything else had to wait, too."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        histogram = partial(Histogram, namespace=NAMESPACE, registry=registry)
        self._lag = histogram(
            "event_loop_lag_seconds", "By how much a sleep of 0.25 s was late.", buckets=_BUCKETS
        )

    async def watch(self) -> NoReturn:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + INTERVAL_S
            await asyncio.sleep(INTERVAL_S)
            self._lag.observe(max(0.0, loop.time() - due))
