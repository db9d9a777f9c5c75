"""CliLauncher: starts a CLI process in a directory of its own."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

from app.conversations.records import TranscriptEntry
from app.conversations.transcript_store import TranscriptStore
from app.executors.claude_agent.auth import ModelAuth
from app.executors.claude_agent.graph_keys import keeps_transcript
from app.executors.claude_agent.launching.processors import available_processors
from app.executors.claude_agent.launching.start_slots import StartSlots
from app.executors.claude_agent.launching.started_cli import LaunchSpec, StartedCli
from app.executors.claude_agent.options.sdk_options import build_options
from app.executors.claude_agent.process.cli import Cli
from app.executors.claude_agent.process.cli_process import CliProcess
from app.executors.claude_agent.process.directory import RunDirectory
from app.executors.claude_agent.process.environment import GOES_ON, launcher
from app.executors.claude_agent.process.failures import StderrTail
from app.executors.claude_agent.sandbox.port import Sandbox
from app.executors.claude_agent.sdk_session import ConversationTurn, SdkSession
from app.executors.claude_agent.tools.mcp_bridge import McpBridge
from app.executors.claude_agent.tools.sdk_hooks import SdkHooks
from app.executors.port import AgentFailed, RunPlan
from app.gateway.proxy import ChannelAddress
from app.platform.background import run_to_completion
from app.platform.server.disk import Disk

log = structlog.get_logger(__name__)


def _most_starting() -> int:
    return max(1, round(available_processors()))


@dataclass(slots=True)
class CliLauncher:
    """Starts CLI processes, and on `aclose` waits until all of them have ended."""

    cli: Cli
    disk: Disk
    """Its directory holds one folder per process; must exist."""
    auth: ModelAuth
    sessions: TranscriptStore
    new_client: Callable[[ClaudeAgentOptions], ClaudeSDKClient] = ClaudeSDKClient
    slots: StartSlots = field(default_factory=lambda: StartSlots(_most_starting()))
    _processes: dict[asyncio.Task[None], CliProcess] = field(init=False, default_factory=dict)
    """By the task that ends with the process."""

    async def aclose(self) -> None:
        """Wait until every process has ended and its folder is removed."""
        await asyncio.gather(*self._processes, return_exceptions=True)

    def __len__(self) -> int:
        """Count the CLIs that run, or are about to end."""
        return len(self._processes)

    def pids(self) -> list[int]:
        found = (process.pid for process in self._processes.values())
        return [pid for pid in found if pid is not None]

    async def launch(
        self,
        spec: LaunchSpec,
        plan: RunPlan,
        *,
        turn: ConversationTurn | None = None,
        sandbox: Sandbox | None = None,
        ahead: bool = False,
        kept: Sequence[TranscriptEntry] | None = None,
    ) -> StartedCli:
        """Start a CLI with this launch spec, for this run or one like it; raises `AgentFailed`.

        `ahead`: the run is not known yet, so the CLI warms up meanwhile. `kept`: the transcript ends in the
        middle of a turn; it has what a run without a conversation has written before.
        """
        address, session = self.auth.new_address(), None
        if keeps_transcript(plan):
            session = SdkSession(self.sessions, turn, kept=kept or ())
        bridge = McpBridge(plan)
        async with self._directory(sandbox) as directory:
            directory.system_prompt_file.write_text(spec.system_prompt, encoding="utf-8")
            if session is not None:
                await asyncio.to_thread(session.write_transcript, directory)
            environment = self._environment(spec, directory, address=address, goes_on=kept is not None)
            options = build_options(
                plan,
                launcher=directory.write_launcher(self._launcher(directory, environment, sandbox)),
                system_prompt_file=directory.cli_paths.path / directory.system_prompt_file.name,
                work=directory.work,
                server=bridge.server(),
                hooks=SdkHooks(bridge),
                full=spec.full,
                with_login=self.auth.login is not None,
            )
            # The SDK adds the server's own variables, which the launcher has until it removes them.
            options.env = dict.fromkeys(os.environ, "")
            if session is not None:
                session.configure(options, directory, is_stored=spec.stores_session)
            stderr = StderrTail()
            options.stderr = stderr.append
            process = CliProcess(
                self.new_client(options),
                directory,
                stderr=stderr,
                reads_usage_baseline=self.auth.login is not None,
                before_cleanup=None if session is None else session.save_missed_lines,
                sandbox=sandbox,
                # A login may change meanwhile, and a workspace is filled for one run.
                stays=spec.stores_session and sandbox is None and self.auth.login is None,
                start_slot=self.slots.slot(),
                warm_up=self.auth.warming_up(address) if ahead else None,
            )
            self._keep(process, process.start())
        return StartedCli(process, bridge, address, spec, session)

    @asynccontextmanager
    async def _directory(self, sandbox: Sandbox | None) -> AsyncIterator[RunDirectory]:
        """A folder for a CLI, which is removed if none is started in it; raises `AgentFailed`."""
        try:
            inside = None if sandbox is None else sandbox.paths
            directory = await asyncio.to_thread(
                RunDirectory, self.disk.directory, login=self.auth.login, inside=inside
            )
            try:
                yield directory
            except BaseException:
                await run_to_completion(asyncio.to_thread(directory.remove))
                raise
        except OSError as error:
            log.error(  # noqa: TRY400 - its text has a path
                "cli.failed", failure="not_started", reason=error.strerror, killed=False, stderr=[]
            )
            await self.disk.check()
            raise AgentFailed("not_started", is_silent=True) from error

    def _keep(self, process: CliProcess, owner: asyncio.Task[None]) -> None:
        self._processes[owner] = process
        owner.add_done_callback(self._processes.pop)

    def _environment(
        self, spec: LaunchSpec, directory: RunDirectory, *, address: ChannelAddress, goes_on: bool
    ) -> dict[str, str]:
        environment = self.auth.environment(
            address,
            directory=directory.cli_paths.path,
            longest_tool_s=spec.longest_call_s,
            options=spec.options,
            compacts=spec.stores_session,
        )
        return {**environment, **(GOES_ON if goes_on else {}), **self.cli.extra_env}

    def _launcher(
        self, directory: RunDirectory, environment: Mapping[str, str], sandbox: Sandbox | None
    ) -> str:
        wrapping = None
        if sandbox is not None:
            wrapping = sandbox.wrap(self.cli.path, directory.files_for_sandbox(), directory.path)
        return launcher(self.cli.path, environment, pid_file=directory.pid_file, wrapping=wrapping)
