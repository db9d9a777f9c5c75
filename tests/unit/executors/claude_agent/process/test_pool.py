"""Processes that are ready: for whom, how many, and for how long."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions

from app.executors.claude_agent.process import pool as module
from app.executors.claude_agent.process.cli_process import CliProcess
from app.executors.claude_agent.process.directory import RunDirectory
from app.executors.claude_agent.process.pool import LaunchSpec, WarmCli, WarmPool
from app.executors.claude_agent.tools.mcp_bridge import McpBridge
from app.executors.claude_agent.tools.sdk_hooks import SdkHooks
from app.executors.port import RunPlan
from app.gateway.proxy import ChannelAddress
from app.models.registry import ModelOptions
from app.requests import RunLimits
from tests.factories import a_plan
from tests.unit.executors.claude_agent.fake_cli import FakeCli
from tests.unit.executors.claude_agent.tools.test_sdk_hooks import nothing_against
from tests.unit.tools.samples.weather import weather


class Bench:
    """A pool, and every process it started."""

    def __init__(self, tmp_path: Path, size: int) -> None:
        self.started: list[WarmCli] = []
        self.prompts: list[str] = []
        self.owners: list[asyncio.Task[None]] = []
        self.age_s = 0.0
        self._path = tmp_path
        self.pool = WarmPool(size, self._start)

    async def refill(self, plan: RunPlan, prompt: str = "p") -> None:
        before = len(self.started)
        self.pool.refill(spec_of(plan, prompt), plan)
        async with asyncio.timeout(10):
            while len(self.started) == before:
                await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def _start(self, plan: RunPlan, prompt: str) -> WarmCli:
        cli = FakeCli()
        process = CliProcess(cli.client(ClaudeAgentOptions()), RunDirectory(self._path))
        self.owners.append(process.start())
        await cli.connected.wait()
        self.prompts.append(prompt)
        started_at = asyncio.get_running_loop().time() - self.age_s
        hooks = SdkHooks([], nothing_against, full=False)
        warm = WarmCli(process, McpBridge(plan), hooks, ChannelAddress("", ""), started_at)
        self.started.append(warm)
        return warm


def spec_of(plan: RunPlan, prompt: str = "p") -> LaunchSpec:
    return LaunchSpec.of(plan, prompt, longest_call_s=1)


@asynccontextmanager
async def a_pool(tmp_path: Path, size: int = 1) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path, size)
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
        assert bench.prompts == ["p"]


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "claude-haiku-5-5"},
        {"options": ModelOptions(max_output_tokens=7)},
        {"tools": (weather,)},
        {"limits": RunLimits.of(max_turns=2)},
    ],
    ids=["model", "options", "tools", "turns"],
)
def test_everything_a_process_is_started_with_is_part_of_its_spec(fields: dict[str, Any]) -> None:
    assert spec_of(a_plan()) == spec_of(a_plan())
    assert spec_of(a_plan(**fields)) != spec_of(a_plan())


async def test_one_that_waited_too_long_is_ended_in_place_of_being_used(tmp_path: Path) -> None:
    plan = a_plan()
    async with a_pool(tmp_path) as bench:
        bench.age_s = module.MAX_AGE_S + 1
        await bench.refill(plan)

        assert bench.pool.take(spec_of(plan)) is None
        await asyncio.wait_for(bench.started[0].process.exited.wait(), 10)


async def test_so_is_one_that_has_died(tmp_path: Path) -> None:
    plan = a_plan()
    async with a_pool(tmp_path) as bench:
        await bench.refill(plan)
        bench.started[0].process.discard()
        await asyncio.wait_for(bench.started[0].process.exited.wait(), 10)

        assert bench.pool.take(spec_of(plan)) is None


async def test_a_full_pool_makes_room_for_what_is_wanted_now(tmp_path: Path) -> None:
    plan = a_plan()
    async with a_pool(tmp_path) as bench:
        await bench.refill(plan, "old")
        await bench.refill(plan, "new")

        assert bench.pool.take(spec_of(plan, "old")) is None
        assert bench.pool.take(spec_of(plan, "new")) is bench.started[1]


async def test_a_pool_without_room_or_that_is_closed_starts_nothing(tmp_path: Path) -> None:
    async with a_pool(tmp_path, size=0) as bench:
        bench.pool.refill(spec_of(a_plan()), a_plan())
        assert bench.started == []
    async with a_pool(tmp_path) as bench:
        await bench.pool.aclose()
        bench.pool.refill(spec_of(a_plan()), a_plan())
        await asyncio.sleep(0)
        assert bench.started == []
