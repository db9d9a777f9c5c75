"""ClaudeAgentExecutor: runs a graph with the Claude Agent SDK, one CLI process per run."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from claude_agent_sdk import Message

from app.events import AiEvent, AssistantFinal
from app.executors.claude_agent.auth import ModelAuth
from app.executors.claude_agent.metering.hooks import MeteringHooks
from app.executors.claude_agent.options.init_check import UnexpectedCapabilities
from app.executors.claude_agent.options.preview import shown
from app.executors.claude_agent.options.sdk_options import build_options
from app.executors.claude_agent.process.cli_process import CliFailed, CliProcess
from app.executors.claude_agent.prompt import content_blocks, system_prompt, user_content
from app.executors.claude_agent.run_stream import RunStream
from app.executors.claude_agent.sandbox.confinement import RunningSandbox
from app.executors.claude_agent.sandbox.control_groups import ControlGroups
from app.executors.claude_agent.sandbox.probe import Sandbox, SandboxUnavailable
from app.executors.claude_agent.starter import CliStarter
from app.executors.claude_agent.structured_output import require_match
from app.executors.claude_agent.tools.hooks import Hooks
from app.executors.claude_agent.tools.mcp_bridge import McpBridge
from app.executors.claude_agent.tools.permissions import ToolPermissions
from app.executors.claude_agent.watchdog import Watchdog
from app.executors.port import (
    ABORTED,
    BUDGET,
    INTERNAL,
    MAX_TURNS,
    NO_CREDIT,
    TIMEOUT,
    UNAVAILABLE,
    ExecutionFailed,
    Preview,
    RunContext,
    RunOutcome,
)
from app.executors.text import loggable
from app.gateway.call import Refusal
from app.ids import new_uuid
from app.json_schema.checker import SchemaChecker
from app.requests import GraphRunRequest, SentMessage
from app.tools.mcp_servers import McpConnections, McpConnector, McpServerUnavailable
from app.workspaces.service import Workspaces

log = structlog.get_logger(__name__)

ENDINGS: Mapping[Refusal | None, RunOutcome] = {
    "deadline": TIMEOUT,
    "turns": MAX_TURNS,
    "budget": BUDGET,
    "credit": NO_CREDIT,
    "journal": INTERNAL,
    "answer": UNAVAILABLE,
}
"""How a run ends whose call the gateway refused."""


class ClaudeAgentExecutor:
    """Owns one SDK client for one run; implements the `GraphExecutor` port."""

    def __init__(
        self,
        *,
        access: ModelAuth,
        billing: MeteringHooks,
        starter: CliStarter,
        servers: McpConnector,
        workspaces: Workspaces,
        sandbox: Sandbox,
        schemas: SchemaChecker,
        groups: ControlGroups | None,
    ) -> None:
        """`groups` are for jails."""
        self._access = access
        self._billing = billing
        self._starter = starter
        self._servers = servers
        self._workspaces = workspaces
        self._sandbox = sandbox
        self._schemas = schemas
        self._groups = groups

    async def run(
        self,
        request: GraphRunRequest,
        context: RunContext,
    ) -> AsyncGenerator[AiEvent, None]:
        """See the port."""
        if (missing := self._access.missing) is not None:
            log.error("a run cannot start", reason=missing)
            raise ExecutionFailed("provider_unavailable")
        connections = await self._connected(context)
        try:
            tools = (*context.tools, *connections.tools)
            async with (
                self._confined(context) as confinement,
                aclosing(self._run(request, replace(context, tools=tools), confinement)) as events,
            ):
                async for event in events:
                    yield event
        finally:
            await connections.aclose()

    @asynccontextmanager
    async def _confined(self, context: RunContext) -> AsyncIterator[RunningSandbox | None]:
        """The jail of a run with native tools; without a sandbox there is none."""
        if not context.spec.native_tools:
            yield None
            return
        try:
            await self._sandbox.require()
        except SandboxUnavailable as error:
            log.error("a run got no workspace", reason=str(error))  # noqa: TRY400 - no traceback needed
            raise ExecutionFailed("internal") from error
        spec = context.spec.workspace
        workspace = await self._workspaces.open(context.run, spec)
        try:
            group = None if self._groups is None else await asyncio.to_thread(self._groups.create, spec)
        except OSError as error:
            log.error("a run got no control group", reason=error.strerror)  # noqa: TRY400
            raise ExecutionFailed("internal") from error
        confinement = RunningSandbox(workspace, group)
        try:
            yield confinement
        finally:
            await asyncio.shield(asyncio.to_thread(confinement.close))

    async def _connected(self, context: RunContext) -> McpConnections:
        """Connect to other people's tools, unless somebody stops the run first."""
        connecting = asyncio.create_task(
            self._servers.connect(context.spec.mcp_servers, context.remote_tools)
        )
        stopping = asyncio.create_task(context.control.stop.wait())
        waits: set[asyncio.Task[Any]] = {connecting, stopping}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if not connecting.done():
                raise ExecutionFailed(*ABORTED)
            return connecting.result()
        except McpServerUnavailable as error:
            log.error("a run cannot start without its MCP server", server=str(error))  # noqa: TRY400
            raise ExecutionFailed("provider_unavailable") from error
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.wait(waits)

    async def _run(
        self, request: GraphRunRequest, context: RunContext, confinement: RunningSandbox | None
    ) -> AsyncGenerator[AiEvent, None]:
        guard = Watchdog(context)
        cli, opening = await self._starter.start(request, context, confinement=confinement)
        process = cli.process
        lane = self._access.open(context, *self._billing.lane(context), at=cli.address)
        cli.bridge.serve(context, lane, cli.hooks)
        turn = RunStream(
            context,
            wanted=request.response_format,
            results=cli.bridge.results,
            meters=self._access.meter(context, lane, process),
        )
        try:
            guard.watch(process, confinement)
            process.say(str(new_uuid()), opening.content)
            context.control.deliver_to(partial(_pass_on, process, turn))
            async for message in _heard(process):
                for event in turn.feed(message):
                    yield event
                    cli.bridge.told(event)
                await cli.hooks.hear(message)
                guard.check(lane)
        except UnexpectedCapabilities as error:
            log.error("refused to go on", reason=loggable(str(error)))  # noqa: TRY400 - no traceback needed
        finally:
            guard.end()
            # Also when nobody hears what is yielded below: the numbers are noted as they come.
            await self._access.close(lane)
            if confinement is not None:
                # Nothing of it may be alive in there when its files are read.
                await process.gone.wait()
        for event in turn.cut_off(tool_failures=cli.failures.failures):
            yield event
        if turn.unkept:
            await process.gone.wait()
        if confinement is not None and confinement.filled:
            await self._workspaces.store_outputs(context.run, confinement.workspace)
        final = _answer(turn, guard.stopped or ENDINGS.get(lane.refused))
        await require_match(self._schemas, final, request.response_format, account_id=context.run.account_id)
        yield final

    def preview(self, request: GraphRunRequest, context: RunContext) -> Preview:
        """See the port."""
        full = self._access.full or context.spec.needs_full_cli
        bridge = McpBridge(context)
        options = build_options(
            context,
            launcher=Path(),
            system_prompt_file=Path(),
            work=Path(),
            server=bridge.server(),
            hooks=Hooks([], ToolPermissions(context.spec, bridge.objection, bridge.review_native), full=full),
            response_format=request.response_format,
            full=full,
        )
        return Preview(
            system_prompt=system_prompt(context.spec.system_prompt, request.messages),
            prompt=content_blocks(request.messages),
            options=shown(options),
        )


def _pass_on(process: CliProcess, turn: RunStream, sent: SentMessage) -> None:
    process.say(sent.message_id, user_content([sent.message]), priority=sent.priority)
    turn.expect(sent)


async def _heard(process: CliProcess) -> AsyncIterator[Message]:
    try:
        async for message in process.messages():
            yield message
    except CliFailed as error:
        say = log.warning if process.killed else log.error
        stderr = [loggable(line) for line in process.stderr]
        say("the CLI failed", reason=loggable(str(error)), killed=process.killed, stderr=stderr)


def _answer(turn: RunStream, stopped: RunOutcome | None) -> AssistantFinal:
    try:
        return turn.answer(stopped)
    except ExecutionFailed as error:
        # The provider's own words are for the operator alone.
        log.warning("a run ended without an answer", outcome=error.outcome, reason=turn.reason())
        raise
