import asyncio
import itertools

import pytest

from app.runs.batches.records import BatchConfig
from app.runs.batches.worker import BatchWorker
from tests.virtual_time import in_virtual_time


class Batches:
    """Makes so many steps; then there is none until there are more."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.looks: list[float] = []

    async def make_step(self) -> bool:
        self.looks.append(asyncio.get_running_loop().time())
        self.steps -= 1
        return self.steps >= 0


async def times_of(batches: Batches, *, until_s: float) -> list[float]:
    worker = BatchWorker(batches.make_step, BatchConfig(poll_s=1.0, pause_s=0.1))
    working = asyncio.create_task(worker.work())
    await asyncio.sleep(until_s)
    working.cancel()
    return [round(at, 1) for at in batches.looks]


@in_virtual_time
async def test_a_process_without_a_batch_looks_once_in_a_while_from_its_start() -> None:
    assert await times_of(Batches(0), until_s=3.5) == [0, 1, 2, 3]


@in_virtual_time
async def test_after_a_batch_a_process_looks_often_for_a_while() -> None:
    looks = await times_of(Batches(1), until_s=9)

    assert looks[:10] == [0, *[0] * 4, *[0.1] * 4, 0.2]
    assert [later - at for at, later in itertools.pairwise(looks[-6:])] == pytest.approx([1.0] * 5)
