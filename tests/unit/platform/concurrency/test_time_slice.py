import time

from app.platform.concurrency.time_slice import SLICE_S, TimeSlice
from tests.bystander import a_bystander


async def test_other_tasks_run_once_a_slice_is_used_up() -> None:
    time_slice = TimeSlice()
    async with a_bystander() as bystander:
        end = time.perf_counter() + 10 * SLICE_S
        while time.perf_counter() < end:
            await time_slice.checkpoint()

    # A machine that is busy with something else takes some of them.
    assert 2 <= bystander.turns <= 10
