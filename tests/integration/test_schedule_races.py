"""Several processes start the runs of schedules, and are killed between any two of their steps.

`RACES=20` looks for longer.
"""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from app.errors import AppError
from app.platform.db import Database, Snapshot, Transaction
from app.requests.principal import Principal
from app.schedules.cron import Timing
from app.schedules.overlap import Overlap
from app.schedules.records import FiringConfig, Schedule, ScheduledRun
from app.schedules.service import TooManySchedules
from tests.factories import an_account, an_open_database
from tests.integration.run_service import caller_of
from tests.integration.schedule_server import (
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    ScheduleServer,
    SetClock,
    a_schedule_server,
)
from tests.integration.statements import execute, rows, scalar

T = TypeVar("T")
LEASE = FiringConfig().lease
SEEDS = range(int(os.environ.get("RACES", "1")))
HOURLY = Timing("0 * * * *")
OVERLAPS: tuple[Overlap, ...] = ("skip", "queue", "cancel", "allow")


class TickingClock(SetClock):
    """Tells no time twice."""

    async def read(self) -> datetime:
        self.go_on(timedelta(microseconds=1))
        return self.now


class Killed(BaseException):
    """The process is killed: it does nothing more."""


class MortalDatabase(Database):
    """The database, to a process that is killed when it uses it for the so-manieth time."""

    uses_left = 10**9
    """Counted down by each transaction, and by each query outside any."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        async with self._use(super().transaction) as tx:
            yield tx

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Transaction]:
        async with self._use(super().write) as tx:
            yield tx

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Snapshot]:
        async with self._use(super().read) as reader:
            yield reader

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Snapshot]:
        async with self._use(super().snapshot) as reader:
            yield reader

    @property
    def is_dead(self) -> bool:
        return self.uses_left < 0

    @asynccontextmanager
    async def _use(self, opened: Callable[[], AbstractAsyncContextManager[T]]) -> AsyncIterator[T]:
        self.uses_left -= 1
        if self.is_dead:
            raise Killed
        async with opened() as connection:
            yield connection
            if self.is_dead:
                # Before it is committed.
                raise Killed


@asynccontextmanager
async def a_mortal_server(
    url: str, directory: Path, clock: SetClock, *, uses: int
) -> AsyncIterator[ScheduleServer]:
    """A process that is killed when it has used the database so often; leaving it kills it at once."""
    database = await MortalDatabase.open(url)
    try:
        async with a_schedule_server(database, directory, clock=clock, is_dispatching=False) as server:
            database.uses_left = uses
            yield server
            _kill()
    except* Killed:
        pass
    finally:
        while database.use.in_use:
            # Starting a run is not interrupted.
            await asyncio.sleep(0.01)
        await database.aclose()


def _kill() -> None:
    raise Killed


async def pass_until_killed(server: ScheduleServer) -> bool:
    """Do what is to be done; returns whether the process was killed meanwhile."""
    try:
        await server.pass_once()
    except Killed:
        return True
    return False


async def end_orphans(database: Database) -> None:
    """What recovery does with the runs of processes that were killed."""
    await execute(
        database, "UPDATE runs SET status = 'failed', ended_at = now() WHERE status IN ('queued', 'running')"
    )


async def runs_of(database: Database, schedule: Schedule) -> list[str]:
    """The ids of all runs that were started for a schedule."""
    statement = "SELECT run_id FROM runs WHERE request_id = :id ORDER BY run_id"
    return [row.run_id for row in await rows(database, statement, id=f"schedule:{schedule.schedule_id}")]


async def unfinished(database: Database, schedule: Schedule) -> int:
    statement = "SELECT count(*) FROM runs WHERE request_id = :id AND ended_at IS NULL"
    return int(await scalar(database, statement, id=f"schedule:{schedule.schedule_id}"))


@pytest.mark.parametrize("overlap", ["skip", "cancel"])
async def test_a_process_may_be_killed_between_any_two_steps(
    database: Database, database_url: str, tmp_path: Path, overlap: Overlap
) -> None:
    clock, was_killed, deaths = SetClock(), True, 0
    async with a_schedule_server(database, tmp_path / "survivor", clock=clock) as survivor:
        owner = survivor.owner
        while was_killed:
            clock.now = NOON
            schedule = await survivor.schedule(overlap=overlap)
            clock.now = NOON + MINUTE
            async with a_mortal_server(database_url, tmp_path / f"{deaths}", clock, uses=deaths) as mortal:
                was_killed = await pass_until_killed(mortal)
            clock.go_on(LEASE)
            await survivor.pass_once()
            (due,) = await survivor.history(schedule)
            assert (due.outcome, due.due_at) == ("started", NOON + MINUTE), deaths
            assert await runs_of(database, schedule) == [due.run_id], deaths
            await survivor.service.delete(owner, schedule.schedule_id)
            deaths += 1
        await survivor.ended()
    assert deaths > 8


@dataclass
class Chaos:
    """Servers that are killed and replaced, clients that change the schedules, a clock that jumps."""

    url: str
    directory: Path
    healthy: ScheduleServer
    owner: Principal
    schedules: list[Schedule]
    dice: random.Random
    latest: datetime = NOON
    deaths: int = 0
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def round(self) -> None:
        """A few things at once."""
        self._move_clock()
        works = [self._work() for _ in range(2)] + [self._change() for _ in range(self.dice.randrange(3))]
        await asyncio.gather(*works)
        await self._check()

    async def settle(self) -> None:
        """Let everything come to its end that has begun."""
        database = self.healthy.database
        for _ in range(12):
            await end_orphans(database)
            self.healthy.clock.go_on(30 * SECOND)
            await self.healthy.pass_once()
        await self.healthy.ended()

    def _move_clock(self) -> None:
        steps = [*(timedelta(seconds=n) for n in (1, 7, 30, 61, 130)), 2 * HOUR, -10 * MINUTE, -3 * HOUR]
        weights = [8, 8, 8, 8, 4, 1, 1, 1]
        clock = self.healthy.clock
        clock.go_on(self.dice.choices(steps, weights)[0])
        self.latest = max(self.latest, clock.now)

    async def _work(self) -> None:
        uses = self.dice.choice([10**6, self.dice.randrange(30)])
        directory = self.directory / f"{self.deaths}"
        self.deaths += 1
        async with a_mortal_server(self.url, directory, self.healthy.clock, uses=uses) as server:
            await pass_until_killed(server)
        if self.dice.random() < 0.5:
            await end_orphans(self.healthy.database)

    async def _change(self) -> None:
        service, name = self.healthy.service, self.dice.choice(self.schedules).schedule_id
        overlap = self.dice.choice(OVERLAPS)
        cron = self.dice.choice(["* * * * *", "*/2 * * * *", "*/7 * * * *"])
        match self.dice.randrange(6):
            case 0:
                await service.pause(self.owner, name)
            case 1 | 2:
                await service.resume(self.owner, name)
            case 3:
                await service.trigger(self.owner, name)
            case 4:
                await service.change(self.owner, name, lambda terms: replace(terms, overlap=overlap))
            case _:
                timing = Timing(cron)
                await service.change(self.owner, name, lambda terms: replace(terms, timing=timing))

    async def _check(self) -> None:
        for schedule in self.schedules:
            for due in await self.healthy.history(schedule):
                assert due.due_at <= self.latest + SECOND

    async def verdict(self) -> None:
        """Each run belongs to a due time, and nothing is left undecided."""
        for schedule in self.schedules:
            due_times = await self.healthy.history(schedule)
            assert {due.outcome for due in due_times} <= {"started", "skipped", "missed", "refused"}
            assert {due.error for due in due_times} <= {None}
            assert sorted(_started(due_times)) == await runs_of(self.healthy.database, schedule)


def _started(due_times: list[ScheduledRun]) -> list[str]:
    return [due.run_id for due in due_times if due.outcome == "started"]


@pytest.mark.parametrize("seed", SEEDS)
async def test_every_run_belongs_to_one_due_time_whatever_happens(
    database: Database, database_url: str, tmp_path: Path, seed: int
) -> None:
    async with a_schedule_server(database, tmp_path / "healthy") as healthy:
        owner = healthy.owner
        schedules = [await healthy.schedule(overlap=overlap) for overlap in OVERLAPS]
        dice = random.Random(seed)  # noqa: S311 - to be repeated
        chaos = Chaos(database_url, tmp_path, healthy, owner, schedules, dice)
        for _ in range(10):
            await chaos.round()
        await chaos.settle()
        await chaos.verdict()


@pytest.mark.parametrize("overlap", ["skip", "queue"])
async def test_runs_do_not_overlap_however_many_processes_and_requests_start_them(
    database: Database, database_url: str, tmp_path: Path, overlap: Overlap
) -> None:
    clock, most = TickingClock(), 0
    async with (
        an_open_database(database_url) as other,
        a_schedule_server(database, tmp_path / "a", clock=clock) as first,
        a_schedule_server(other, tmp_path / "b", clock=clock) as second,
    ):
        owner = first.owner
        schedule = await first.schedule(overlap=overlap)
        working = [asyncio.create_task(server.worker.work()) for server in (first, second)]
        for _ in range(8):
            clock.go_on(45 * SECOND)
            triggers = [server.service.trigger(owner, schedule.schedule_id) for server in (first, second)]
            await asyncio.gather(*triggers)
            most = max(most, await unfinished(database, schedule))
        for task in working:
            task.cancel()
        await asyncio.wait(working)
        await first.ended()
        await second.ended()
        started = _started(await first.history(schedule))
        runs = await runs_of(database, schedule)
    assert most == 1
    assert sorted(started) == runs


async def test_changes_of_a_schedule_that_is_due_neither_fail_nor_start_it_twice(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    clock, dice = SetClock(), random.Random(1)  # noqa: S311 - to be repeated
    async with (
        an_open_database(database_url) as other,
        a_schedule_server(database, tmp_path / "a", clock=clock) as first,
        a_schedule_server(other, tmp_path / "b", clock=clock) as second,
    ):
        owner = first.owner
        for _ in range(10):
            clock.now = NOON
            schedule = await first.schedule(overlap="allow")
            name, service = schedule.schedule_id, first.service
            clock.now = NOON + MINUTE + SECOND
            changes = [
                service.pause(owner, name),
                service.change(owner, name, lambda terms: replace(terms, timing=HOURLY)),
                service.trigger(owner, name),
            ]
            works = [first.pass_once(), second.pass_once(), dice.choice(changes)]
            for change in changes:
                if change is not works[-1]:
                    change.close()
            dice.shuffle(works)
            await asyncio.gather(*works)
            clock.go_on(LEASE)
            await asyncio.gather(first.pass_once(), second.pass_once())

            due_times = await first.history(schedule)
            assert {due.outcome for due in due_times} <= {"started"}
            assert [due.due_at for due in due_times if due.trigger == "cron"] in ([], [NOON + MINUTE])
            assert sorted(_started(due_times)) == await runs_of(database, schedule)
            await service.delete(owner, name)
        await first.ended()
        await second.ended()


async def test_a_schedule_that_is_deleted_while_it_is_due_leaves_at_most_its_run(
    database: Database, tmp_path: Path
) -> None:
    clock = SetClock()
    async with a_schedule_server(database, tmp_path / "healthy", clock=clock) as healthy:
        owner = healthy.owner
        for number in range(16):
            clock.now = NOON
            schedule = await healthy.schedule()
            clock.now = NOON + MINUTE

            async def delete(name: str = schedule.schedule_id, steps: int = number % 8) -> None:
                for _ in range(steps * 3):
                    await asyncio.sleep(0)
                await healthy.service.delete(owner, name)

            await asyncio.gather(healthy.pass_once(), delete())
            clock.go_on(LEASE)
            await healthy.pass_once()

            assert len(await runs_of(database, schedule)) <= 1
            with pytest.raises(AppError):
                await healthy.service.get(owner, schedule.schedule_id)
        await healthy.ended()


async def test_several_processes_together_keep_the_limit_of_an_account(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    async with (
        an_open_database(database_url) as other,
        a_schedule_server(database, tmp_path / "a", max_per_account=1) as first,
        a_schedule_server(other, tmp_path / "b", max_per_account=1) as second,
    ):
        for number in range(10):
            owner = caller_of(await an_account(database, f"account-{number}"))
            works = [server.schedule("0 0 1 1 *", owner=owner) for server in (first, second)]
            answers = await asyncio.gather(*works, return_exceptions=True)

            assert {type(answer) for answer in answers} == {Schedule, TooManySchedules}
