"""What every dispatcher promises: PostgreSQL's and the one on Temporal."""

import asyncio
from collections import Counter

import pytest

from app.platform.db import DatabaseUnavailable
from tests.contracts.dispatching import OpenFleet, Outage
from tests.e2e.stories import until
from tests.factories import an_account
from tests.integration.run_service import RETRIED, a_request, caller_of
from tests.patience import PATIENCE_S


async def test_runs_are_executed_once_each_by_all_processes_within_their_places(
    open_fleet: OpenFleet,
) -> None:
    async with open_fleet() as fleet:
        one, two = await fleet.join(4), await fleet.join(4)
        await one.heartbeat.send()
        prompts = [f"{number}" for number in range(16)]
        runs = [await one.start(prompt=each) for each in prompts]
        await until(lambda: len(one.starter.attempts()) == len(two.starter.attempts()) == 4)
        assert await fleet.statuses(runs) == {"running": 8, "queued": 8}
        fleet.go_on.set()

        await fleet.until(runs, succeeded=16)
        assert Counter(fleet.executed) == Counter(prompts)
        assert fleet.most == {0: 4, 1: 4}
        await until(lambda: one.process.places.taken == two.process.places.taken == 0)


async def test_the_turns_of_a_conversation_are_executed_in_order(open_fleet: OpenFleet) -> None:
    async with open_fleet() as fleet:
        one, _ = await fleet.join(2), await fleet.join(2)
        prompts = ["first", "second", "third"]
        runs = [await one.start(prompt=each, state_key="chat") for each in prompts]
        await until(lambda: len(fleet.executed) == 1)
        assert await fleet.statuses(runs) == {"running": 1, "queued": 2}
        fleet.go_on.set()

        await fleet.until(runs, succeeded=3)
        assert fleet.executed == prompts


async def test_an_account_with_one_run_does_not_wait_for_all_runs_of_another(open_fleet: OpenFleet) -> None:
    async with open_fleet() as fleet:
        core = await fleet.join(1, per_account=8)
        greedy, modest = [caller_of(await an_account(fleet.database, name=name)) for name in ("a", "b")]
        runs = [
            await core.service.start(greedy, a_request(prompt="greedy"), request_id=None) for _ in range(5)
        ]
        await until(lambda: fleet.executed == ["greedy"])
        runs.append(await core.service.start(modest, a_request(prompt="modest"), request_id=None))
        await fleet.until_queued(5)
        fleet.go_on.set()

        await fleet.until(runs, succeeded=6)
        assert fleet.executed.index("modest") <= 2


async def test_a_process_that_drains_takes_nothing_and_another_one_gets_its_runs(
    open_fleet: OpenFleet,
) -> None:
    async with open_fleet() as fleet:
        one = await fleet.join(2, per_account=8)
        first = await one.start(prompt="first")
        await until(lambda: fleet.executed == ["first"])
        draining = asyncio.create_task(one.drain.drain(within_s=PATIENCE_S))
        await until(lambda: one.dispatcher.is_draining)
        two = await fleet.join(0, per_account=8)
        rest = [await two.start(prompt="rest") for _ in range(3)]
        await one.dispatcher.claim()
        three = await fleet.join(1, per_account=8)
        await until(lambda: fleet.executed == ["first", "rest"])
        assert len(three.starter.attempts()) == 1
        fleet.go_on.set()

        await fleet.until([first, *rest], succeeded=4)
        await draining
        assert fleet.most == {0: 1, 1: 0, 2: 1}


async def test_a_queued_run_that_is_cancelled_is_not_executed(open_fleet: OpenFleet) -> None:
    async with open_fleet() as fleet:
        core = await fleet.join(1, per_account=8)
        runs = [await core.start(prompt=each) for each in ("first", "cancelled", "last")]
        await until(lambda: len(fleet.executed) == 1)
        begun = fleet.executed[0]
        waiting = [
            run for run, prompt in zip(runs, ("first", "cancelled", "last"), strict=True) if prompt != begun
        ]
        assert (await core.process.commands.stop(waiting[0].key, "cancel")).status == "cancelled"
        fleet.go_on.set()

        await fleet.until(runs, succeeded=2, cancelled=1)
        assert len(fleet.executed) == 2
        await until(lambda: core.process.places.taken == 0)


async def test_an_outage_of_the_database_loses_no_run(open_fleet: OpenFleet, outage: Outage) -> None:
    async with open_fleet() as fleet:
        core = await fleet.join(1, per_account=8)
        runs = [await core.start(prompt=each) for each in "abc"]
        await until(lambda: len(fleet.executed) == 1)
        async with outage():
            with pytest.raises(DatabaseUnavailable):
                await core.process.queue.has_ready()
            fleet.go_on.set()

        await fleet.until(runs, succeeded=3)
        assert sorted(fleet.executed) == ["a", "b", "c"]


async def test_the_run_of_a_killed_process_is_resumed_by_another(open_fleet: OpenFleet) -> None:
    async with open_fleet() as fleet:
        api = await fleet.join(0)
        spawned = await fleet.spawn(1)
        request = a_request(RETRIED, state_key="chat")
        run = await api.service.start(caller_of(await an_account(fleet.database)), request, request_id=None)
        await fleet.until([run], running=1)
        spawned.kill()
        await spawned.wait()
        fleet.go_on.set()
        await fleet.join(1)

        await fleet.until([run], succeeded=1)
        assert (await fleet.record(run.key)).attempt == 1
        assert len(fleet.executed) == 1
