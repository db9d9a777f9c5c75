import asyncio
import time

from app.turns import TURN_S, Turns


async def test_others_have_their_turns_while_somebody_reads_what_is_there() -> None:
    turns, others = Turns(), 0

    async def other() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    working = asyncio.create_task(other())
    end = time.perf_counter() + 10 * TURN_S
    while time.perf_counter() < end:
        await turns.take()
    working.cancel()

    # A machine that is busy with something else takes some of them.
    assert 2 <= others <= 10
