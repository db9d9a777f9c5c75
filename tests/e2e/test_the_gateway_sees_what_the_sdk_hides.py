"""Calls that no SDK message shows, or shows wrongly: the SDK in its full mode, behind the gateway.

Runtally's own executor switches these off where it can. The meters must not depend on that.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest_asyncio
from claude_agent_sdk import AgentDefinition, ClaudeAgentOptions, ClaudeSDKClient, ResultMessage

from app.auth.records import KeyRecord
from app.executors.claude_agent.meters.comparing_meter import ComparingMeter
from app.executors.claude_agent.meters.usage import UsageFold
from app.executors.claude_agent.process.cli import bundled_cli
from app.executors.claude_agent.process.directory import RunDirectory
from app.executors.claude_agent.process.environment import cli_environment, launcher
from app.executors.port import RunPlan
from app.http.api.receipts.schemas import ReceiptResponse
from app.ids import RunId, RunKey
from app.models.registry import ModelOptions
from app.platform.db import Database
from app.simulator.script import Answer, ApiRequest, Reply, Text, ToolUse
from app.simulator.server import Simulator
from app.usage.records import Attribution, Meters
from tests.e2e.stories import until
from tests.e2e.the_bill import bill, wire
from tests.factories import a_plan, an_account
from tests.integration.billed_gateway import MODEL, BilledGateway, a_billed_gateway
from tests.integration.gateway_seam import PROVIDER_KEY
from tests.patience import PATIENCE_S

SWITCHES = ("DISABLE_COMPACT", "CLAUDE_CODE_DISABLE_ATTACHMENTS")


@dataclass
class Bench:
    """Everything between the SDK and the receipts, without the executor."""

    simulator: Simulator
    billed: BilledGateway
    key: KeyRecord
    directory: RunDirectory

    def plan(self, run_id: str) -> RunPlan:
        """The plan of a run."""
        run = RunKey(self.key.account_id, RunId(run_id))
        return a_plan(run=run, model=MODEL, attribution=Attribution(self.key.id, "claude_agents:full", None))

    async def converse(self, run_id: str, *prompts: str, results: int = 1, **options: Any) -> Meters:
        """Ask one prompt after the other and settle the bill."""
        plan, channel = self.plan(run_id), self.billed.channel(self.key, run_id)
        meters, fold = ComparingMeter(plan, channel), UsageFold()
        async with ClaudeSDKClient(self.options(channel.url, channel.token, run_id, options)) as client:
            for prompt in prompts:
                await client.query(prompt)
                heard = 0
                async with asyncio.timeout(PATIENCE_S):
                    async for message in client.receive_messages():
                        meters.observe(message)
                        for metered in fold.feed(message):
                            for fact in meters.feed(metered):
                                self.billed.metering.receipts.record(fact)
                        if isinstance(message, ResultMessage):
                            heard += 1
                            if heard == results:
                                break
        await self.billed.gateway.close_channel(channel)
        for fact in meters.finish():
            self.billed.metering.receipts.record(fact)
        return meters.summary()

    async def receipts(self, run_id: str) -> list[dict[str, Any]]:
        """What was charged for this run."""
        found = await self.billed.charged(self.plan(run_id).run)
        return [ReceiptResponse.model_validate(receipt).model_dump(by_alias=True) for receipt in found]

    def options(self, url: str, token: str, name: str, options: dict[str, Any]) -> ClaudeAgentOptions:
        """The SDK in its full mode, pointed at a lane."""
        environment = cli_environment(
            token=token,
            base_url=url,
            directory=self.directory.path,
            longest_tool_s=30,
            options=ModelOptions(),
        )
        for switch in SWITCHES:
            del environment[switch]
        script = self.directory.path / f"launch-{name}"
        script.write_text(launcher(bundled_cli(), environment, pid_file=self.directory.pid_file))
        os.chmod(script, 0o700)  # noqa: PTH101 - as the executor does
        chosen: dict[str, Any] = {
            "system_prompt": "You are the main agent.",
            "model": MODEL,
            "thinking": {"type": "disabled"},
            "tools": [],
            "strict_mcp_config": True,
            "setting_sources": [],
            "permission_mode": "dontAsk",
            "include_partial_messages": True,
            "cli_path": script,
            "cwd": self.directory.work,
            **options,
        }
        return ClaudeAgentOptions(**chosen)


@pytest_asyncio.fixture
async def bench(database: Database, tmp_path: Path) -> AsyncIterator[Bench]:
    async with (
        Simulator(lambda _: Reply([Text("hello")]), accepted_keys=frozenset({PROVIDER_KEY})) as simulator,
        a_billed_gateway(database, simulator.url, tmp_path / "journal") as billed,
    ):
        yield Bench(simulator, billed, await an_account(database), RunDirectory(tmp_path))


def a_delegating_model(*, background: bool) -> Callable[[ApiRequest], Answer]:
    def answer(request: ApiRequest) -> Answer:
        if "You are the helper" in request.system:
            return Reply([Text("Helper's answer.")], usage={"input_tokens": 33, "output_tokens": 1})
        if len(request.messages) == 1:
            call = {"description": "help", "prompt": "SUBTASK", "subagent_type": "helper"}
            return Reply([ToolUse("Agent", {**call, "run_in_background": background})])
        return Reply([Text("Main answer.")], usage={"input_tokens": 99, "output_tokens": 1})

    return answer


HELPER: dict[str, Any] = {
    "tools": ["Agent"],
    "allowed_tools": ["Agent"],
    "agents": {"helper": AgentDefinition(description="helps", prompt="You are the helper.", tools=[])},
}


async def test_a_subagent_in_the_foreground(bench: Bench) -> None:
    bench.simulator.responder = a_delegating_model(background=False)

    meters = await bench.converse("fg", "go", **HELPER)

    receipts = await bench.receipts("fg")
    assert bill(receipts) == wire(bench.simulator.sent)
    assert len(receipts) == 3
    assert meters.drift == 0
    assert meters.cost is not None
    assert (meters.cost.drift_usd, meters.cost.notes) == (Decimal(0), ())
    # A subagent's message that only has text is in no SDK message at all.
    assert sorted(receipt["origin"] for receipt in receipts) == ["assistant", "assistant", "hidden"]


async def test_a_subagent_in_the_background(bench: Bench) -> None:
    bench.simulator.responder = a_delegating_model(background=True)

    meters = await bench.converse("bg", "go", results=2, **HELPER)

    receipts = await bench.receipts("bg")
    assert bill(receipts) == wire(bench.simulator.sent)
    assert len(receipts) >= 3
    assert meters.drift == 0
    assert meters.cost is not None
    assert (meters.cost.drift_usd, meters.cost.notes) == (Decimal(0), ())


async def test_compaction(bench: Bench) -> None:
    bench.simulator.responder = lambda _: Reply([Text("<summary>All of it.</summary>")])

    meters = await bench.converse("compact", "hello", "/compact", "and now?")

    receipts = await bench.receipts("compact")
    assert bill(receipts) == wire(bench.simulator.sent)
    assert [receipt["origin"] for receipt in receipts].count("hidden") == 1
    assert (meters.sdk, meters.gateway) == (2, 3)
    assert meters.cost is not None
    assert (meters.cost.drift_usd, meters.cost.notes) == (Decimal(0), ())


async def test_a_client_that_just_leaves(bench: Bench) -> None:
    """Disconnected without an interrupt, the CLI goes on by itself; the bill goes with it."""
    bench.simulator.responder = lambda _: Reply([Text("one two three four five")], delta_delay_s=0.2)
    channel = bench.billed.channel(bench.key, "left")
    async with ClaudeSDKClient(bench.options(channel.url, channel.token, "left", {})) as client:
        await client.query("go")
        await until(lambda: bool(bench.simulator.sent))

    await bench.billed.gateway.close_channel(channel)

    assert bill(await bench.receipts("left")) == wire(bench.simulator.sent) != {}
