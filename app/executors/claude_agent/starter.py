"""CliStarter: provides a started CLI for a run: the conversation's own, a ready one, or a new one."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from app.conversations.records import TranscriptEntry
from app.executors.claude_agent.graph_keys import needs_full_mode
from app.executors.claude_agent.launching.launcher import CliLauncher
from app.executors.claude_agent.launching.pool import CliPool, ParkedCli
from app.executors.claude_agent.launching.processors import ProcessorUse, available_processors
from app.executors.claude_agent.launching.start_ahead import StartAhead
from app.executors.claude_agent.launching.started_cli import LaunchSpec, StartedCli
from app.executors.claude_agent.process.cli_process import CliProcess
from app.executors.claude_agent.prompt import system_prompt
from app.executors.claude_agent.sandbox.port import Sandbox
from app.executors.claude_agent.sdk_session import ConversationTurn, ConversationTurns, InitialPrompt
from app.executors.port import FIRST_ATTEMPT, RunPlan
from app.platform.logs.context import start_detached
from app.requests.run_request import GraphRunRequest

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class CliStarter:
    """Starts CLI processes, and on `aclose` waits until all of them have ended."""

    launcher: CliLauncher
    idle_processes: int
    """How many processes are kept that serve no run."""
    max_idle_s: float
    pool: CliPool = field(init=False)
    _ahead: StartAhead = field(init=False)
    _use: ProcessorUse = field(init=False)
    _turns: ConversationTurns = field(init=False)
    _refills: set[asyncio.Task[None]] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        launch = partial(self.launcher.launch, ahead=True)
        self.pool = CliPool(self.idle_processes, launch, max_idle_s=self.max_idle_s)
        self._use = ProcessorUse(self.launcher.pids)
        self._ahead = StartAhead(self.pool, self._has_idle_processor)
        self._turns = ConversationTurns(self.launcher.sessions)

    async def start(
        self,
        request: GraphRunRequest,
        plan: RunPlan,
        *,
        sandbox: Sandbox | None = None,
        kept: Sequence[TranscriptEntry] | None = None,
    ) -> tuple[StartedCli, InitialPrompt]:
        """A CLI that waits for the run's first prompt, and that prompt. Raises `ExecutionFailed`.

        With a sandbox the CLI is started in it, and its workspace is filled before the prompt is sent.
        `kept`: it goes on without the prompt, see `CliLauncher.launch`.
        The caller must `release` the CLI.
        """
        if (found := await self._continue_parked(request, plan)) is not None:
            return found
        turn = await self._turns.load(plan, request.messages)
        prompt = InitialPrompt.of(plan, request.messages) if turn is None else turn.prompt
        spec = self._launch_spec(plan, prompt)
        resumes = kept is not None or (turn is not None and not turn.is_first)
        if resumes or sandbox is not None or self.launcher.auth.login is not None:
            return await self.launcher.launch(spec, plan, turn=turn, sandbox=sandbox, kept=kept), prompt
        if (cli := self.pool.take(spec)) is None:
            cli = await self.launcher.launch(spec, plan, turn=turn)
        else:
            cli.begin_run(turn)
        refill = start_detached(self._refill(cli.process, spec, plan))
        self._refills.add(refill)
        refill.add_done_callback(self._refills.discard)
        return cli, prompt

    def release(self, cli: StartedCli, plan: RunPlan, *, clean: bool) -> None:
        """The run has ended; `clean`: by itself and with nothing pending, so that its CLI may be parked."""
        if clean and cli.process.reusable and plan.conversation is not None:
            cli.end_run()
            if self.pool.park(ParkedCli(plan.conversation, plan.attribution.api_key_id, cli)):
                return
        # Also one that was to end by itself: its run may have been cut short.
        cli.process.discard()

    def warm_up(self, plan: RunPlan) -> None:
        """Start a CLI for a run like this one ahead of time."""
        # Which tools an MCP server has is known once a run has connected to it.
        if self.launcher.auth.login is None and not plan.spec.native_tools and not plan.spec.mcp_servers:
            prompt = InitialPrompt(system_prompt(plan.spec.system_prompt, ()), "")
            self._ahead.want(self._launch_spec(plan, prompt), plan)

    def counts(self) -> dict[str, int]:
        """How many processes serve no run, by what they do, and how many are `busy` with one."""
        idle = self.pool.counts()
        return {**idle, "busy": max(0, len(self.launcher) - sum(idle.values()))}

    async def aclose(self) -> None:
        """Wait until every process has ended and its folder is removed."""
        await self._ahead.aclose()
        await self.pool.aclose()
        await self.launcher.aclose()
        await asyncio.gather(*self._refills, return_exceptions=True)

    def _launch_spec(self, plan: RunPlan, prompt: InitialPrompt) -> LaunchSpec:
        full = self.launcher.auth.needs_full_mode or needs_full_mode(plan.spec)
        return LaunchSpec.of(plan, prompt.system_prompt, full=full)

    async def _continue_parked(
        self, request: GraphRunRequest, plan: RunPlan
    ) -> tuple[StartedCli, InitialPrompt] | None:
        """The parked CLI of the run's conversation, and the run's prompt; None if there is none for it."""
        if plan.conversation is None:
            return None
        if (parked := self.pool.take_parked(plan.conversation)) is None:
            return None
        turn = None
        try:
            turn = await self._next_turn(parked, request, plan)
        finally:
            if turn is None:
                parked.cli.process.discard()
        if turn is None:
            return None
        parked.cli.begin_run(turn)
        return parked.cli, turn.prompt

    async def _next_turn(
        self, parked: ParkedCli, request: GraphRunRequest, plan: RunPlan
    ) -> ConversationTurn | None:
        """The turn that a parked CLI serves next; None if it is not what would be started for it."""
        session = parked.cli.session
        if session is None or plan.attempt != FIRST_ATTEMPT:
            reason = "attempt"
        elif plan.attribution.api_key_id != parked.api_key_id:
            reason = "key"
        elif (turn := await self._turns.load_next(plan, request.messages, session)) is None:
            reason = "transcript"
        elif self._launch_spec(plan, turn.prompt) != parked.cli.spec:
            reason = "options"
        elif not parked.cli.process.reusable:
            reason = "process"
        else:
            return turn
        log.info("cli.parked_replaced", reason=reason)
        return None

    async def _refill(self, process: CliProcess, spec: LaunchSpec, plan: RunPlan) -> None:
        # Start the next process while this run waits for the provider.
        await process.responded.wait()
        self._ahead.want(spec, plan)

    def _has_idle_processor(self) -> bool:
        """Whether no run waits for its CLI, and a processor is free, or half of a single one."""
        available = available_processors()
        idle = available - self._use.since_last()
        return self.launcher.slots.wanted == 0 and idle >= min(1.0, available / 2)
