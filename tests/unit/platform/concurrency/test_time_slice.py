import asyncio
import time

from app.platform.concurrency.time_slice import SLICE_S, TimeSlice
from tests.bystander import a_bystander
from tests.patience import PATIENCE_S


async def test_other_tasks_run_once_a_slice_is_used_up() -> None:
    time_slice, began = TimeSlice(), time.perf_counter()
    async with asyncio.timeout(PATIENCE_S), a_bystander() as bystander:
        while bystander.turns < 10:
            await time_slice.checkpoint()

    # And not before: each turn took a slice.
    assert time.perf_counter() - began >= 9 * SLICE_S
