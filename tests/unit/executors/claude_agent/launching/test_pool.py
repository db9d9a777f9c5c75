"""Processes that are ready: for whom, how many, and for how long."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions

from app.executors.claude_agent.launching.pool import CliPool, ParkedCli
from app.executors.claude_agent.launching.started_cli import LaunchSpec, StartedCli
from app.executors.claude_agent.process.cli_process import CliProcess
from app.executors.claude_agent.process.directory import RunDirectory
from app.executors.claude_agent.tools.mcp_bridge import McpBridge
from app.executors.port import RunPlan
from app.gateway.proxy import ChannelAddress
from app.graphs.spec import GraphSpec
from app.ids import AccountId, ApiKeyId, new_uuid
from app.models.registry import ModelOptions
from app.requests.run_request import RunLimits
from tests.factories import a_conversation, a_plan, schemas_of
from tests.patience import PATIENCE_S
from tests.unit.executors.claude_agent.fake_cli import FakeCli
from tests.unit.tools.samples.weather import weather
from tests.unit.waiting import until

ADA, BOB = AccountId(new_uuid()), AccountId(new_uuid())
CHAT = a_conversation(ADA, "chat")


class Bench:
    """A pool, and every process it started."""

    def __init__(self, tmp_path: Path, size: int, max_idle_s: float) -> None:
        self.started: list[StartedCli] = []
        self.owners: list[asyncio.Task[None]] = []
        self._path = tmp_path
        self.pool = CliPool(size, self.start, max_idle_s=max_idle_s)

    async def refill(self, plan: RunPlan, prompt: str = "p") -> StartedCli:
        before = len(self.started)
        self.pool.refill(spec_of(plan, prompt), plan)
        await until(lambda: len(self.started) != before)
        await asyncio.sleep(0)
        return self.started[-1]

    async def park(self, key: str = "chat", account: AccountId = ADA) -> ParkedCli:
        cli = await self.start(spec_of(a_plan()), a_plan())
        parked = ParkedCli(a_conversation(account, key), ApiKeyId(new_uuid()), cli)
        assert self.pool.park(parked)
        return parked

    async def start(self, spec: LaunchSpec, plan: RunPlan) -> StartedCli:
        cli = FakeCli()
        process = CliProcess(cli.client(ClaudeAgentOptions()), RunDirectory(self._path))
        self.owners.append(process.start())
        await cli.connected.wait()
        started = StartedCli(process, McpBridge(plan), ChannelAddress("", ""), spec, None)
        self.started.append(started)
        return started


def spec_of(plan: RunPlan, prompt: str = "p", schema: dict[str, Any] | None = None) -> LaunchSpec:
    return LaunchSpec.of(replace(plan, schemas=schemas_of(answer=schema)), prompt, full=False)


async def ended(cli: StartedCli) -> None:
    """Wait until a process has ended."""
    await asyncio.wait_for(cli.process.exited.wait(), PATIENCE_S)


@asynccontextmanager
async def a_pool(tmp_path: Path, size: int = 1, max_idle_s: float = 600) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path, size, max_idle_s)
    try:
        yield bench
    finally:
        await bench.pool.aclose()
        for warm in bench.started:
            warm.process.discard()
        if bench.owners:
            await asyncio.wait(bench.owners)


async def test_a_process_is_handed_out_once_and_only_for_what_it_was_started_with(tmp_path: Path) -> None:
    plan = a_plan()
    async with a_pool(tmp_path) as bench:
        await bench.refill(plan)

        assert bench.pool.take(spec_of(plan, "another")) is None
        assert bench.pool.take(spec_of(plan)) is bench.started[0]
        assert bench.pool.take(spec_of(plan)) is None


FIELDS: dict[str, dict[str, Any]] = {
    "model": {"model": "claude-haiku-5-5"},
    "options": {"options": ModelOptions(max_output_tokens=7)},
    "tools": {"tools": (weather,)},
    "description": {"tools": (replace(weather, description="Another."),)},
    "turns": {"limits": RunLimits.of(max_turns=2)},
    "subagents": {"agent_models": {"one": "claude-haiku-5-5"}},
    "graph": {"spec": GraphSpec(name="planner", description="d", system_prompt="p", approve=("read_only",))},
    "mode": {"spec": GraphSpec(name="planner", description="d", system_prompt="p", permission_mode="plan")},
}


@pytest.mark.parametrize("name", FIELDS)
def test_everything_a_process_is_started_with_is_part_of_its_spec(name: str) -> None:
    assert spec_of(a_plan()) == spec_of(a_plan())
    assert spec_of(a_plan(**FIELDS[name])) != spec_of(a_plan())


def test_the_order_of_a_schemas_members_counts_because_the_model_sees_it() -> None:
    one, other = {"type": "object", "title": "t"}, {"title": "t", "type": "object"}

    assert spec_of(a_plan(), schema=one) == spec_of(a_plan(), schema=dict(one))
    assert spec_of(a_plan(), schema=one) != spec_of(a_plan(), schema=other)
    assert spec_of(a_plan(), schema=one) != spec_of(a_plan())


async def test_one_that_waited_too_long_is_ended_in_place_of_being_used(tmp_path: Path) -> None:
    plan = a_plan()
    async with a_pool(tmp_path, size=2, max_idle_s=0) as bench:
        ready, parked = await bench.refill(plan), await bench.park()

        assert bench.pool.take(spec_of(plan)) is None
        assert bench.pool.take_parked(parked.conversation) is None
        await ended(ready)
        await ended(parked.cli)


async def test_so_is_one_that_has_died(tmp_path: Path) -> None:
    plan = a_plan()
    async with a_pool(tmp_path, size=2) as bench:
        ready, parked = await bench.refill(plan), await bench.park()
        for cli in (ready, parked.cli):
            cli.process.discard()
            await ended(cli)

        assert bench.pool.take(spec_of(plan)) is None
        assert bench.pool.take_parked(parked.conversation) is None


async def test_a_full_pool_makes_room_for_what_is_wanted_now(tmp_path: Path) -> None:
    plan = a_plan()
    async with a_pool(tmp_path) as bench:
        await bench.refill(plan, "old")
        new = await bench.refill(plan, "new")

        assert bench.pool.take(spec_of(plan, "old")) is None
        assert bench.pool.take(spec_of(plan, "new")) is new


async def test_a_pool_without_room_or_that_is_closed_starts_and_keeps_nothing(tmp_path: Path) -> None:
    async with a_pool(tmp_path, size=0) as bench:
        cli = await bench.start(spec_of(a_plan()), a_plan())
        bench.pool.refill(spec_of(a_plan()), a_plan())
        assert not bench.pool.park(ParkedCli(CHAT, ApiKeyId(new_uuid()), cli))
        assert bench.started == [cli]
    async with a_pool(tmp_path) as bench:
        cli = await bench.start(spec_of(a_plan()), a_plan())
        await bench.pool.aclose()
        bench.pool.refill(spec_of(a_plan()), a_plan())
        assert not bench.pool.park(ParkedCli(CHAT, ApiKeyId(new_uuid()), cli))
        await asyncio.sleep(0)
        assert bench.started == [cli]


async def test_a_process_that_is_being_started_prevents_no_parking(tmp_path: Path) -> None:
    plan = a_plan()
    async with a_pool(tmp_path) as bench:
        cli = await bench.start(spec_of(plan), plan)
        bench.pool.refill(spec_of(plan), plan)
        assert bench.pool.is_starting
        parked = ParkedCli(CHAT, ApiKeyId(new_uuid()), cli)

        assert bench.pool.park(parked)

        await until(lambda: not bench.pool.is_starting)
        await ended(bench.started[-1])
        assert bench.pool.take_parked(CHAT) is parked


async def test_a_parked_process_is_found_by_its_conversation_only_and_once(tmp_path: Path) -> None:
    async with a_pool(tmp_path, size=3) as bench:
        mine, theirs = await bench.park(), await bench.park(account=BOB)

        assert bench.pool.take(spec_of(a_plan())) is None
        assert bench.pool.take_parked(a_conversation(ADA, "another")) is None
        assert bench.pool.take_parked(mine.conversation) is mine
        assert bench.pool.take_parked(mine.conversation) is None
        assert bench.pool.take_parked(theirs.conversation) is theirs


async def test_the_least_recently_used_process_makes_room(tmp_path: Path) -> None:
    plan = a_plan()
    async with a_pool(tmp_path, size=3) as bench:
        first, second = await bench.park("first"), await bench.park("second")
        ready = await bench.refill(plan)
        used = bench.pool.take_parked(first.conversation)
        assert used is first
        assert bench.pool.park(used)

        third = await bench.park("third")

        await ended(second.cli)
        await bench.park("fourth")
        await ended(ready)
        assert [parked.conversation.state_key for parked in bench.pool.parked()] == [
            "first",
            "third",
            "fourth",
        ]
        assert third.cli.process.alive


async def test_ready_processes_leave_half_of_the_pool_to_conversations(tmp_path: Path) -> None:
    plan = a_plan()
    async with a_pool(tmp_path, size=4) as bench:
        await bench.refill(plan)
        await bench.refill(plan)
        bench.pool.refill(spec_of(plan), plan)
        await asyncio.sleep(0)
        assert len(bench.started) == 2
        # Another one replaces a ready one, and no conversation's.
        parked = [await bench.park("one"), await bench.park("two")]
        await bench.refill(plan, "another")

        await ended(bench.started[0])
        assert bench.pool.parked() == parked
