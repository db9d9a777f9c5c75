"""A run that has answered may be kept open for another message."""

import asyncio

from app.events import Status
from app.executors.port import RunContext
from app.platform.background import first_of


async def keep_open(context: RunContext, ended: asyncio.Event) -> bool:
    """Wait for another message, as long as the plan says; whether there is one.

    Otherwise the run is to end with its answer; the caller must not wait before it accepts no more messages.
    Call it at once after no message was left; `ended` stops waiting.
    """
    control, keep_open_s = context.control, context.plan.keep_open.total_seconds()
    control.inbox.arrived.clear()
    if keep_open_s > 0 and not control.closing.is_set():
        await context.events.publish(Status(phase="waiting", label="Open for messages"))
        waits = (control.inbox.arrived.wait(), control.closing.wait(), ended.wait())
        await first_of(*waits, timeout_s=keep_open_s)
    # One may have arrived after the time was over.
    return control.inbox.arrived.is_set()
