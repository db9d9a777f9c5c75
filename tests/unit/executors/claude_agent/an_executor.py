"""The executor over a CLI of ours: everything real but the program, the gateway and the database."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.conversations.prompt_store import PromptStore
from app.events import AiEvent
from app.executors.claude_agent.executor import ClaudeAgentExecutor
from app.executors.claude_agent.launching.launcher import CliLauncher
from app.executors.claude_agent.meters.port import RunMeter
from app.executors.claude_agent.meters.sdk_meter import SdkMeter
from app.executors.claude_agent.process.cli import Cli
from app.executors.claude_agent.process.cli_process import CliProcess
from app.executors.claude_agent.sandbox.probe import SandboxProbe
from app.executors.claude_agent.sandbox.sandboxes import BubblewrapSandboxes
from app.executors.claude_agent.starter import CliStarter
from app.executors.evidence import AddEvidence, keep_none
from app.executors.port import RunContext, RunPlan
from app.gateway.call import MeteringHooks
from app.gateway.channel import Channel, ChannelLimits
from app.gateway.proxy import ChannelAddress
from app.graphs.spec import GraphSpec
from app.platform.json_schema.checker import SchemaChecker
from app.platform.server.disk import Disk
from app.platform.ssrf_guard import AddressPolicy
from app.platform.telemetry.run_trace import RunTrace
from app.requests.messages import Message
from app.requests.run_request import GraphRunRequest
from app.tools.mcp.servers import McpConnector
from app.usage.records import ExecutorType
from app.workspaces.egress.proxy import Egress
from app.workspaces.service import Workspaces
from tests.factories import Events, a_control
from tests.unit.executors.claude_agent.fake_cli import FakeCli
from tests.unit.gateway.calls import Billing

NO_DATABASE: Any = None
"""No run of these tests has a conversation or a workspace."""


@dataclass(slots=True)
class OwnAuth:
    """Neither a gateway nor a login: the channel is there for its limits."""

    needs_full_mode: bool = False
    login: Path | None = None
    unavailable_reason: str | None = None
    refusals: Mapping[str, str] = field(default_factory=dict)
    channel: Channel | None = None
    outage: str | None = None

    async def problem(self) -> str | None:
        return None

    def new_address(self) -> ChannelAddress:
        return ChannelAddress("token", "http://gateway/token")

    def warming_up(self, at: ChannelAddress) -> AbstractContextManager[None] | None:  # noqa: ARG002
        return nullcontext()

    def open_channel(
        self, plan: RunPlan, limits: ChannelLimits, hooks: MeteringHooks, *, at: ChannelAddress
    ) -> Channel:
        self.channel = Channel(plan.run.run_id, at.token, at.url, limits, hooks)
        return self.channel

    async def close_channel(self, channel: Channel) -> None:
        # A channel with calls waits for them.
        await asyncio.sleep(0)
        await channel.close()

    def meter(self, plan: RunPlan, channel: Channel, process: CliProcess) -> RunMeter:
        return SdkMeter(plan, channel, process)

    def environment(self, address: ChannelAddress, **_: Any) -> dict[str, str]:
        return {"ANTHROPIC_BASE_URL": address.url}


@dataclass(slots=True)
class OwnMetering:
    """A token costs a dollar."""

    billing: Billing = field(default_factory=Billing)
    expected: ExecutorType = "claude_sdk"

    def hooks_for(
        self,
        plan: RunPlan,
        *,
        executor_type: ExecutorType,
        trace: RunTrace | None = None,  # noqa: ARG002
        add_evidence: AddEvidence = keep_none,  # noqa: ARG002
    ) -> MeteringHooks:
        assert (plan.attempt, executor_type) == (0, self.expected)
        return self.billing.hooks()


@dataclass(slots=True)
class Bench:
    """An executor, and what it stands on."""

    executor: ClaudeAgentExecutor
    starter: CliStarter
    auth: OwnAuth
    events: Events = field(default_factory=Events)

    async def run(self, plan: RunPlan, prompt: str = "hello") -> list[AiEvent]:
        """What a run publishes; of one that fails it is in `events`."""
        request = GraphRunRequest(graphId=plan.spec.id, messages=[Message(role="user", content=prompt)])
        await self.executor.run(request, RunContext(plan, a_control(), self.events))
        return self.events.published


@asynccontextmanager
async def an_executor(
    tmp_path: Path, *clis: FakeCli, idle_processes: int = 0, **auth: Any
) -> AsyncIterator[Bench]:
    """Each process it starts is the next of these."""
    remaining = iter(clis)
    schemas = SchemaChecker(workers=1, check_s=1)
    own = OwnAuth(**auth)
    launcher = CliLauncher(
        Cli(Path("/no/cli")),
        Disk(tmp_path),
        own,
        NO_DATABASE,
        new_client=lambda options: next(remaining).client(options),
    )
    starter = CliStarter(launcher, idle_processes=idle_processes, max_idle_s=600)
    executor = ClaudeAgentExecutor(
        auth=own,
        metering=OwnMetering(),
        starter=starter,
        prompts=PromptStore(NO_DATABASE),
        servers=McpConnector({}, schemas),
        workspaces=Workspaces(NO_DATABASE, []),
        sandboxes=BubblewrapSandboxes(SandboxProbe(behind_gateway=False), None, Egress(AddressPolicy())),
        schemas=schemas,
    )
    try:
        yield Bench(executor, starter, own)
    finally:
        await starter.aclose()
        await schemas.__aexit__(None, None, None)


def a_graph(**fields: Any) -> GraphSpec:
    return GraphSpec(name="planner", description="d", system_prompt="Be brief.", **fields)
