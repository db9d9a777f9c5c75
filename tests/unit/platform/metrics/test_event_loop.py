import asyncio
import time
from contextlib import suppress

from prometheus_client import CollectorRegistry

from app.platform.metrics.event_loop import EventLoopLag

BLOCKED_S = 0.4


async def test_what_blocks_the_event_loop_is_measured() -> None:
    registry = CollectorRegistry()
    watching = asyncio.create_task(EventLoopLag(registry).watch())
    await asyncio.sleep(0)
    # What no tool should do: the sleep of 0.25 s ends late.
    time.sleep(BLOCKED_S)  # noqa: ASYNC251
    await asyncio.sleep(0.01)
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching

    lag_s = registry.get_sample_value("runtally_event_loop_lag_seconds_sum")
    assert lag_s is not None
    assert lag_s >= BLOCKED_S - 0.25 - 0.01
