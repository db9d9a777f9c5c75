"""Processes are started ahead while nothing else needs the processors."""

import asyncio
from pathlib import Path

from app.executors.claude_agent.launching.start_ahead import StartAhead
from app.executors.claude_agent.launching.start_slots import StartSlots
from tests.factories import a_plan
from tests.patience import PATIENCE_S
from tests.unit.executors.claude_agent.launching.test_pool import a_pool, spec_of
from tests.unit.waiting import turns, until


class Machine:
    """Idle or not; notes how often that was checked."""

    def __init__(self, *, idle: bool) -> None:
        self.idle = idle
        self.checks = 0

    def is_idle(self) -> bool:
        self.checks += 1
        return self.idle

    async def checked(self, times: int) -> None:
        enough = self.checks + times
        await until(lambda: self.checks >= enough)


async def test_nothing_is_started_while_runs_need_the_processors(tmp_path: Path) -> None:
    plan, machine = a_plan(), Machine(idle=False)
    async with a_pool(tmp_path, size=4) as bench:
        ahead = StartAhead(bench.pool, machine.is_idle, interval_s=0)
        ahead.want(spec_of(plan), plan)
        await machine.checked(5)
        assert bench.started == []

        machine.idle = True
        await until(lambda: len(bench.started) == 1)
        await ahead.aclose()


async def test_the_first_check_only_begins_to_measure(tmp_path: Path) -> None:
    plan, machine = a_plan(), Machine(idle=True)
    async with a_pool(tmp_path, size=4) as bench:
        ahead = StartAhead(bench.pool, machine.is_idle, interval_s=0)
        ahead.want(spec_of(plan), plan)
        await until(lambda: bench.pool.is_starting)
        assert machine.checks == 2
        await ahead.aclose()


async def test_the_latest_wishes_are_met_as_far_as_there_is_room(tmp_path: Path) -> None:
    plan, machine = a_plan(), Machine(idle=False)
    async with a_pool(tmp_path, size=4) as bench:
        ahead = StartAhead(bench.pool, machine.is_idle, interval_s=0)
        for prompt in ("one", "two", "three"):
            ahead.want(spec_of(plan, prompt), plan)
        machine.idle = True
        await until(lambda: len(bench.started) == bench.pool.most_ready == 2)
        await until(lambda: not bench.pool.is_starting)

        assert bench.pool.take(spec_of(plan, "one")) is None
        assert [bench.pool.take(spec_of(plan, prompt)) for prompt in ("two", "three")] == bench.started
        await ahead.aclose()


async def test_a_process_for_a_schema_is_started_once_the_schema_has_come_twice(tmp_path: Path) -> None:
    """A wish that was not met in time has come as well."""
    plan, spec, machine = a_plan(), spec_of(a_plan(), schema={"type": "object"}), Machine(idle=False)
    async with a_pool(tmp_path, size=1) as bench:
        ahead = StartAhead(bench.pool, machine.is_idle, interval_s=0)
        ahead.want(spec, plan)
        await turns(5)
        assert machine.checks == 0
        ahead.want(spec, plan)
        machine.idle = True
        await until(lambda: len(bench.started) == 1)
        await ahead.aclose()


async def test_one_is_started_after_the_other_and_none_once_it_is_closed(tmp_path: Path) -> None:
    plan, machine = a_plan(), Machine(idle=True)
    async with a_pool(tmp_path, size=4) as bench:
        ahead = StartAhead(bench.pool, machine.is_idle, interval_s=0)
        starting = []
        for prompt in ("one", "two"):
            ahead.want(spec_of(plan, prompt), plan)
        while len(bench.started) < 2:
            starting.append(len(bench.pool._starting))
            await asyncio.sleep(0)
        assert max(starting) == 1

        await ahead.aclose()
        checks = machine.checks
        ahead.want(spec_of(plan, "three"), plan)
        await turns(5)
        assert (len(bench.started), machine.checks) == (2, checks)


async def test_slots_limit_how_many_start_at_the_same_time_and_serve_in_order() -> None:
    slots, order, most = StartSlots(2), list[int](), list[int]()
    free, starting = asyncio.Semaphore(0), set[int]()

    async def start(number: int) -> None:
        async with slots.slot():
            starting.add(number)
            order.append(number)
            most.append(len(starting))
            await free.acquire()
            starting.discard(number)

    tasks = [asyncio.create_task(start(number)) for number in range(5)]
    await until(lambda: len(order) == 2)
    assert slots.wanted == 5
    tasks[3].cancel()
    for _ in tasks:
        free.release()
    await asyncio.wait(tasks)

    assert (order, max(most), slots.wanted) == ([0, 1, 2, 4], 2, 0)


async def test_a_cli_that_hangs_does_not_keep_its_slot() -> None:
    slots = StartSlots(1, longest_s=0)
    async with slots.slot(), asyncio.timeout(PATIENCE_S), slots.slot():
        assert slots.wanted == 2
    # None was released twice.
    assert slots.wanted == 0
    assert slots._slots._value == 1
