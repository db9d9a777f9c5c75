"""StartedCli: a CLI process and what it was started with."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from app.executors.claude_agent.process.cli_process import CliProcess
from app.executors.claude_agent.sdk_session import ConversationTurn, SdkSession
from app.executors.claude_agent.tools.mcp_bridge import McpBridge
from app.executors.port import RunContext, RunPlan
from app.gateway.channel import Channel
from app.gateway.proxy import ChannelAddress
from app.graphs.spec import GraphSpec
from app.models.registry import ModelOptions
from app.platform.json_schema.model_schema import ModelSchema

_WRITING_S = 0.02
"""The CLI writes a line that long after it has sent it, if the machine is not busy."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Everything about a CLI that cannot change after its start; equal specs start equal processes."""

    graph: GraphSpec
    system_prompt: str
    model: str
    """The CLI could change it, but makes a call of its own and informs the model."""
    agent_models: Mapping[str, str]
    options: ModelOptions
    tools: Sequence[tuple[str, bool, int]]
    """As they are described to the CLI."""
    longest_call_s: float
    max_turns: int | None
    answer: ModelSchema | None
    """Its document has the members in the order in which the model sees them."""
    stores_session: bool
    full: bool
    """Whether in the CLI's full mode."""

    @classmethod
    def of(cls, plan: RunPlan, system_prompt: str, *, full: bool) -> "LaunchSpec":
        bridge = McpBridge(plan)
        return cls(
            graph=plan.spec,
            system_prompt=system_prompt,
            model=plan.model,
            agent_models=plan.agent_models,
            options=plan.options,
            tools=bridge.descriptions,
            longest_call_s=bridge.calls.longest_call_s,
            max_turns=plan.limits.max_turns,
            answer=plan.schemas.answer,
            stores_session=plan.conversation is not None,
            full=full,
        )


@dataclass(frozen=True, slots=True, eq=False)
class StartedCli:
    """A CLI process and the objects it was started with."""

    process: CliProcess
    bridge: McpBridge
    address: ChannelAddress
    """Its base URL and token; they work while a run has its channel open at this address."""
    spec: LaunchSpec
    session: SdkSession | None
    """None if it serves runs without a conversation."""

    def begin_run(self, turn: ConversationTurn | None) -> None:
        """Serve the caller's run from now on, which has this turn if it has a conversation."""
        self.process.begin_run()
        if self.session is not None and turn is not None:
            self.session.start_turn(turn)

    def attach_run(self, context: RunContext, channel: Channel) -> None:
        self.bridge.attach_run(context, channel)
        if self.session is not None:
            self.session.closing = context.control.closing

    async def leave(self, reached: Callable[[], tuple[str | None, Collection[str]]]) -> None:
        """Kill the CLI in the middle of its turn, once all is written but the results of the open calls.

        `reached` is the id of its last message, and the calls.
        """
        session, process = self.session, self.process
        while session is not None and process.alive:
            message_id, open_calls = reached()
            written = await session.open_calls(process.directory, message_id)
            if written == open_calls and not self.bridge.calls.has_results:
                process.leave()
                return
            await asyncio.sleep(_WRITING_S)

    def end_run(self) -> None:
        """Execute and store nothing until there is another run."""
        self.bridge.detach_run()
        self.process.leave_run()
        if self.session is not None:
            self.session.end_turn()
