"""CliStarter: provides a started CLI for a run, from the pool where possible."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

from app.conversations.sdk_store import PostgresSessionStore
from app.executors.claude_agent.auth import ModelAuth
from app.executors.claude_agent.graph_keys import needs_full_mode
from app.executors.claude_agent.options.sdk_options import build_options
from app.executors.claude_agent.process.cli import Cli
from app.executors.claude_agent.process.cli_process import CliProcess, StderrTail
from app.executors.claude_agent.process.directory import RunDirectory
from app.executors.claude_agent.process.environment import launcher
from app.executors.claude_agent.process.pool import LaunchSpec, WarmCli, WarmPool
from app.executors.claude_agent.programs import write_program
from app.executors.claude_agent.prompt import system_prompt
from app.executors.claude_agent.sandbox.bubblewrap import (
    CLI,
    SANDBOX_PATH,
    bubblewrap_arguments,
    command_sandbox,
)
from app.executors.claude_agent.sandbox.running_sandbox import RunningSandbox
from app.executors.claude_agent.sandbox.seccomp import refusing_filter
from app.executors.claude_agent.sdk_session import InitialPrompt, SdkSession
from app.executors.claude_agent.tools.mcp_bridge import McpBridge
from app.executors.claude_agent.tools.permissions import ToolPermissions
from app.executors.claude_agent.tools.sdk_hooks import Observer, SdkHooks, log_hook_call
from app.executors.port import RunPlan
from app.gateway.proxy import ChannelAddress
from app.requests import GraphRunRequest, ResponseFormat

_CONFIG_BYTES = 256 * 1024 * 1024
"""What a CLI in a sandbox may add to its transcript, and keep of results too long for it."""


@dataclass(slots=True)
class CliStarter:
    """Starts CLI processes, and on `aclose` waits until all of them have ended."""

    cli: Cli
    directory: Path
    """Holds one folder per process; must exist."""
    auth: ModelAuth
    sessions: PostgresSessionStore
    pool_size: int
    """How many idle processes are kept."""
    new_client: Callable[[ClaudeAgentOptions], ClaudeSDKClient] = ClaudeSDKClient
    observers: Sequence[Observer] = (log_hook_call,)
    """Notified of every hook call of every run."""
    _pool: WarmPool = field(init=False)
    _tasks: set[asyncio.Task[None]] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._pool = WarmPool(self.pool_size, self._launch_idle)

    async def start(
        self, request: GraphRunRequest, plan: RunPlan, *, sandbox: RunningSandbox | None = None
    ) -> tuple[WarmCli, InitialPrompt]:
        """A CLI that waits for its first prompt, and that prompt. Raises `ExecutionFailed`.

        With a sandbox the CLI is started in it, and its workspace is filled before the prompt is sent.
        """
        prompt, session = InitialPrompt.of(plan, request.messages), None
        if plan.conversation is not None:
            session = SdkSession(self.sessions, plan.conversation, plan.run)
            prompt = await session.load(plan, request.messages)
        launch = _LaunchRequest(plan, prompt.system_prompt, request.response_format, session, sandbox)
        if (spec := self._launch_spec(launch)) is None:
            return await self._launch(launch), prompt
        cli = self._pool.take(spec) or await self._launch(launch)
        self._keep(asyncio.create_task(self._refill(cli.process, spec, plan)))
        return cli, prompt

    def warm_up(self, plan: RunPlan) -> None:
        """Start an idle CLI for runs like this one."""
        launch = _LaunchRequest(plan, system_prompt(plan.spec.system_prompt, ()))
        if (spec := self._launch_spec(launch)) is not None:
            self._pool.refill(spec, plan)

    async def aclose(self) -> None:
        """Wait until every process has ended and its folder is removed."""
        await self._pool.aclose()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _needs_full_mode(self, plan: RunPlan) -> bool:
        return self.auth.needs_full_mode or needs_full_mode(plan.spec)

    def _launch_spec(self, launch: "_LaunchRequest") -> LaunchSpec | None:
        """The spec of an idle process that would fit; None if no process can be started ahead of time."""
        if not launch.is_generic or self._needs_full_mode(launch.plan):
            return None
        longest_call_s = McpBridge(launch.plan).longest_call_s
        return LaunchSpec.of(launch.plan, launch.system_prompt, longest_call_s=longest_call_s)

    async def _refill(self, process: CliProcess, spec: LaunchSpec, plan: RunPlan) -> None:
        # Start the next process while this run waits for the provider.
        await process.responded.wait()
        self._pool.refill(spec, plan)

    async def _launch_idle(self, plan: RunPlan, prompt: str) -> WarmCli:
        return await self._launch(_LaunchRequest(plan, prompt))

    async def _launch(self, launch: "_LaunchRequest") -> WarmCli:
        plan, session, address = launch.plan, launch.session, self.auth.new_address()
        full = self._needs_full_mode(plan)
        bridge = McpBridge(plan)
        permissions = ToolPermissions(plan.spec, bridge.denial_reason, bridge.review_builtin)
        hooks = SdkHooks(self.observers, permissions, full=full)
        directory = await asyncio.to_thread(
            RunDirectory, self.directory, login=self.auth.login, sandboxed=launch.sandbox is not None
        )
        directory.system_prompt_file.write_text(launch.system_prompt, encoding="utf-8")
        if session is not None:
            await asyncio.to_thread(session.write_transcript, directory)
        environment = self._environment(launch, bridge, directory.cli_paths.path, address=address)
        options = build_options(
            plan,
            launcher=directory.write_launcher(self._launcher(directory, environment, launch.sandbox)),
            system_prompt_file=directory.cli_paths.path / directory.system_prompt_file.name,
            work=directory.work,
            server=bridge.server(),
            hooks=hooks,
            response_format=launch.response_format,
            full=full,
        )
        # The SDK adds the server's own variables, which the launcher has until it removes them.
        options.env = dict.fromkeys(os.environ, "")
        if session is not None:
            session.configure(options, directory)
        stderr = StderrTail()
        options.stderr = stderr.append
        process = CliProcess(
            self.new_client(options),
            directory,
            stderr=stderr,
            reads_usage_baseline=self.auth.login is not None,
            before_cleanup=None if session is None else session.save_missed_lines,
            sandbox=launch.sandbox,
        )
        self._keep(process.start())
        return WarmCli(
            process=process,
            bridge=bridge,
            hooks=hooks,
            address=address,
            started_at=asyncio.get_running_loop().time(),
        )

    def _environment(
        self, launch: "_LaunchRequest", bridge: McpBridge, path: Path, *, address: ChannelAddress
    ) -> dict[str, str]:
        environment = self.auth.environment(
            address,
            directory=path,
            longest_tool_s=bridge.longest_call_s,
            options=launch.plan.options,
            compacts=launch.session is not None,
        )
        return {**environment, **self.cli.extra_env}

    def _launcher(
        self, directory: RunDirectory, environment: Mapping[str, str], sandbox: RunningSandbox | None
    ) -> str:
        if sandbox is None:
            return launcher(self.cli.path, environment, pid_file=directory.pid_file)
        spec = sandbox.workspace.spec
        write_program(directory.command_sandbox_file, command_sandbox(spec))
        directory.syscall_filter_file.write_bytes(refusing_filter())
        files = directory.files_for_sandbox()
        arguments = bubblewrap_arguments(
            cli=self.cli.path,
            files=list(files.values()),
            config_bytes=_CONFIG_BYTES + 2 * sum(path.stat().st_size for path in files),
            spec=spec,
        )
        directory.bubblewrap_arguments_file.write_text(
            "".join(f"{argument}\0" for argument in arguments), encoding="utf-8"
        )
        return launcher(
            CLI,
            {**environment, "PATH": SANDBOX_PATH, "PWD": str(directory.cli_paths.work)},
            pid_file=directory.pid_file,
            sandbox_files=[directory.bubblewrap_arguments_file, *files],
            group=None if sandbox.group is None else sandbox.group.processes,
        )


@dataclass(frozen=True, slots=True)
class _LaunchRequest:
    """What a CLI is started for."""

    plan: RunPlan
    system_prompt: str
    response_format: ResponseFormat | None = None
    session: SdkSession | None = None
    sandbox: RunningSandbox | None = None

    @property
    def is_generic(self) -> bool:
        """Whether the CLI could be used by another run with the same launch spec."""
        own = self.session or self.response_format or self.plan.spec.mcp_servers or self.sandbox
        return not own
