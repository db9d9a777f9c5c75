import asyncio

import pytest

from app.platform.server.memory import MemoryCeiling, Overloaded, memory_limit
from tests.patience import PATIENCE_S
from tests.unit.billing.receipts.test_journal_full_disk import no_new_files

MB = 2**20


def test_work_is_accepted_below_the_ceiling_and_refused_above_it() -> None:
    held = 99 * MB
    ceiling = MemoryCeiling(100 * MB, resident_bytes=lambda: held)

    ceiling.require_room()
    ceiling.require_room(MB)
    with pytest.raises(Overloaded):
        ceiling.require_room(2 * MB)
    held = 101 * MB

    with pytest.raises(Overloaded) as refused:
        ceiling.require_room()
    assert refused.value.retry_after_s


def test_without_a_free_descriptor_what_was_measured_last_counts() -> None:
    ceiling = MemoryCeiling(2**40)
    measured = ceiling.resident_bytes()
    with no_new_files():
        ceiling.require_room()
        assert ceiling.resident_bytes() == measured

    with pytest.raises(Overloaded):
        ceiling.require_room(2**40)


def test_the_default_ceiling_is_half_of_the_memory() -> None:
    assert MemoryCeiling().max_bytes == pytest.approx(memory_limit() / 2)


async def test_freed_memory_is_returned_to_the_system_before_the_ceiling_is_reached() -> None:
    # Too small to be mapped each on its own; the last one keeps the heap from shrinking by itself.
    blocks = [bytearray(60 * 1024) for _ in range(2000)]
    *freed, _kept = blocks
    full = MemoryCeiling(2**40).resident_bytes()
    del blocks, freed
    ceiling = MemoryCeiling(full)

    watching = asyncio.create_task(ceiling.watch())
    try:
        async with asyncio.timeout(PATIENCE_S):
            while ceiling.resident_bytes() > full - 80 * MB:
                await asyncio.sleep(0.02)
    finally:
        watching.cancel()
