"""CliStarter: a CLI for a run, one that is ready where there is one."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.conversations.sdk_store import PostgresSessionStore
from app.executors.claude_agent.auth import ModelAuth
from app.executors.claude_agent.conversation import InitialPrompt, SdkSession
from app.executors.claude_agent.options.sdk_options import build_options
from app.executors.claude_agent.pool import LaunchSpec, WarmCli, WarmPool
from app.executors.claude_agent.process.cli import Cli
from app.executors.claude_agent.process.cli_process import CliProcess
from app.executors.claude_agent.process.directory import RunDirectory
from app.executors.claude_agent.process.environment import launcher
from app.executors.claude_agent.programs import write_program
from app.executors.claude_agent.prompt import system_prompt
from app.executors.claude_agent.sandbox.bubblewrap import CLI, JAILED_PATH, command_sandbox, jail
from app.executors.claude_agent.sandbox.confinement import RunningSandbox
from app.executors.claude_agent.sandbox.seccomp import refusing_filter
from app.executors.claude_agent.tools.hooks import FailureCount, Hooks, audit
from app.executors.claude_agent.tools.mcp_bridge import McpBridge
from app.executors.claude_agent.tools.permissions import ToolPermissions
from app.executors.port import RunContext
from app.requests import GraphRunRequest, ResponseFormat

_CONFIG_BYTES = 256 * 1024 * 1024
"""What a CLI in a jail may add to its conversation, and keep of results too long for it."""


@dataclass(slots=True)
class CliStarter:
    """Starts CLI processes and sees to it that none is left."""

    cli: Cli
    directory: Path
    """Takes one folder per process and must exist."""
    access: ModelAuth
    sessions: PostgresSessionStore
    warm: int
    """How many are kept ready."""
    _pool: WarmPool = field(init=False)
    _owners: set[asyncio.Task[None]] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._pool = WarmPool(self.warm, self._ready)

    async def start(
        self, request: GraphRunRequest, context: RunContext, *, confinement: RunningSandbox | None = None
    ) -> tuple[WarmCli, InitialPrompt]:
        """A CLI that waits for its first word, and what to say to it. Raises `ExecutionFailed`.

        With a confinement it lives in that, and finds its workspace filled.
        """
        opening, conversation = InitialPrompt.of(context, request.messages), None
        if context.conversation is not None:
            conversation = SdkSession(self.sessions, context.conversation, context.run)
            opening = await conversation.open(context, request.messages)
        wanted = _Wanted(context, opening.system_prompt, request.response_format, conversation, confinement)
        if (blueprint := self._blueprint(wanted)) is None:
            return await self._launch(wanted), opening
        cli = self._pool.take(blueprint) or await self._launch(wanted)
        refilling = asyncio.create_task(self._refill(cli.process, blueprint, context))
        self._owners.add(refilling)
        refilling.add_done_callback(self._owners.discard)
        return cli, opening

    def warm_up(self, context: RunContext) -> None:
        """Have a CLI ready for runs like this one."""
        wanted = _Wanted(context, system_prompt(context.spec.system_prompt, ()))
        if (blueprint := self._blueprint(wanted)) is not None:
            self._pool.refill(blueprint, context)

    async def aclose(self) -> None:
        """Wait until every process is gone and its folder removed."""
        await self._pool.aclose()
        await asyncio.gather(*self._owners, return_exceptions=True)

    def _full(self, context: RunContext) -> bool:
        return self.access.full or context.spec.needs_full_cli

    def _blueprint(self, wanted: "_Wanted") -> LaunchSpec | None:
        """What a ready process must have been started with; None where none can be ready."""
        if not wanted.alone or self._full(wanted.context):
            return None
        longest_call_s = McpBridge(wanted.context).longest_call_s
        return LaunchSpec.of(wanted.context, wanted.system_prompt, longest_call_s=longest_call_s)

    async def _refill(self, process: CliProcess, blueprint: LaunchSpec, context: RunContext) -> None:
        # While the run waits for the provider there is time to start the next one's process.
        await process.heard.wait()
        self._pool.refill(blueprint, context)

    async def _ready(self, context: RunContext, prompt: str) -> WarmCli:
        return await self._launch(_Wanted(context, prompt))

    async def _launch(self, wanted: "_Wanted") -> WarmCli:
        context, conversation, address = wanted.context, wanted.conversation, self.access.address()
        full = self._full(context)
        bridge = McpBridge(context)
        failures = FailureCount()
        permit = ToolPermissions(context.spec, bridge.objection, bridge.review_native)
        hooks = Hooks([failures, audit], permit, full=full)
        directory = await asyncio.to_thread(
            RunDirectory, self.directory, login=self.access.login, jailed=wanted.confinement is not None
        )
        seen = directory.seen
        environment = self.access.environment(
            address,
            directory=seen.path,
            longest_tool_s=bridge.longest_call_s,
            asked=context.options,
            compacts=conversation is not None,
        )
        directory.system_prompt_file.write_text(wanted.system_prompt, encoding="utf-8")
        if conversation is not None:
            await asyncio.to_thread(conversation.lay_out, directory)
        options = build_options(
            context,
            launcher=directory.write_launcher(
                self._launcher(directory, {**environment, **self.cli.extra}, wanted.confinement)
            ),
            system_prompt_file=seen.path / directory.system_prompt_file.name,
            work=directory.work,
            server=bridge.server(),
            hooks=hooks,
            response_format=wanted.response_format,
            full=full,
        )
        # The SDK adds the server's own variables, which the launcher has until it removes them.
        options.env = dict.fromkeys(os.environ, "")
        if conversation is not None:
            conversation.take_part(options, directory)
        catch_up = None if conversation is None else conversation.catch_up
        process = CliProcess(
            options,
            directory,
            counts=self.access.login is not None,
            before_removal=catch_up,
            confinement=wanted.confinement,
        )
        owner = process.start()
        self._owners.add(owner)
        owner.add_done_callback(self._owners.discard)
        return WarmCli(
            process=process,
            bridge=bridge,
            hooks=hooks,
            failures=failures,
            address=address,
            since=asyncio.get_running_loop().time(),
        )

    def _launcher(
        self, directory: RunDirectory, environment: Mapping[str, str], confinement: RunningSandbox | None
    ) -> str:
        if confinement is None:
            return launcher(self.cli.path, environment, pid_file=directory.pid_file)
        spec = confinement.workspace.spec
        write_program(directory.command_sandbox_file, command_sandbox(spec))
        directory.syscall_filter_file.write_bytes(refusing_filter())
        files = directory.files_for_jail()
        arguments = jail(
            cli=self.cli.path,
            files=list(files.values()),
            config_bytes=_CONFIG_BYTES + 2 * sum(path.stat().st_size for path in files),
            spec=spec,
        )
        directory.jail_file.write_text("".join(f"{argument}\0" for argument in arguments), encoding="utf-8")
        within = {**environment, "PATH": JAILED_PATH, "PWD": str(directory.seen.work)}
        return launcher(
            CLI,
            within,
            pid_file=directory.pid_file,
            jailed_by=[directory.jail_file, *files],
            group=None if confinement.group is None else confinement.group.processes,
        )


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a CLI is started for."""

    context: RunContext
    system_prompt: str
    response_format: ResponseFormat | None = None
    conversation: SdkSession | None = None
    confinement: RunningSandbox | None = None

    @property
    def alone(self) -> bool:
        """Whether it could as well be another run's."""
        asked = self.conversation is None and self.response_format is None
        return asked and not self.context.spec.mcp_servers and self.confinement is None
