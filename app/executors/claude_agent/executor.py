"""ClaudeAgentExecutor: runs a graph with the Claude Agent SDK, one CLI process per run."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

import anyio
import structlog
from claude_agent_sdk import Message, ResultMessage

from app.conversations.prompt_store import PromptStore
from app.conversations.records import TranscriptEntry
from app.events import AssistantFinal
from app.executors import port
from app.executors.api_format.failures import outcome_of_refusal, rejected_part
from app.executors.claude_agent.auth import ModelAuth
from app.executors.claude_agent.graph_keys import may_be_parked
from app.executors.claude_agent.launching.started_cli import StartedCli
from app.executors.claude_agent.meters.port import EXECUTOR_TYPE
from app.executors.claude_agent.options.init_check import UnexpectedCapabilities
from app.executors.claude_agent.process.cli_process import CliProcess
from app.executors.claude_agent.process.failures import CliFailed
from app.executors.claude_agent.prompt import user_content
from app.executors.claude_agent.run_stream import RunStream
from app.executors.claude_agent.sandbox.port import Sandbox, Sandboxes, SandboxUnavailable
from app.executors.claude_agent.starter import CliStarter
from app.executors.claude_agent.transcripts.open_calls import OpenCalls, parked
from app.executors.claude_agent.transcripts.unfinished import SeenText, store_unfinished
from app.executors.claude_agent.watchdog import Watchdog
from app.executors.metering import Metering, attach_control, channel_limits
from app.executors.structured_output import require_match
from app.executors.text import loggable
from app.executors.tools.calls import ToolCalls
from app.executors.tools.client_tools import with_client_tools
from app.executors.tools.questions import with_questions
from app.executors.tools.servers import connected_tools
from app.gateway.channel import Channel
from app.gateway.proxy import ChannelAddress
from app.platform.json_schema.checker import SchemaChecker
from app.requests.messages import SentMessage
from app.requests.outcome import SpentBudget
from app.requests.run_request import GraphRunRequest
from app.tools.mcp.servers import McpConnector
from app.tools.skills.reading import files_in_workspace
from app.workspaces.records import GivenFile
from app.workspaces.service import Workspaces

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ClaudeAgentExecutor:
    """Owns one SDK client for one run; implements the `GraphExecutor` port."""

    auth: ModelAuth
    metering: Metering
    starter: CliStarter
    prompts: PromptStore
    servers: McpConnector
    workspaces: Workspaces
    sandboxes: Sandboxes
    schemas: SchemaChecker

    async def run(self, request: GraphRunRequest, context: port.RunContext) -> None:
        if (reason := self.auth.unavailable_reason) is not None:
            log.error("run.start_failed", reason=reason)
            raise port.ExecutionFailed("provider_unavailable")
        async with (
            connected_tools(self.servers, context) as connected,
            self._open_sandbox(connected.plan) as sandbox,
        ):
            await self._run(request, with_client_tools(with_questions(connected), self.schemas), sandbox)

    @asynccontextmanager
    async def _open_sandbox(self, plan: port.RunPlan) -> AsyncIterator[Sandbox | None]:
        """The sandbox of a run with native tools; None for any other run."""
        if not plan.spec.native_tools:
            yield None
            return
        given = [GivenFile(*file) for file in files_in_workspace(plan.skills)]
        try:
            await self.sandboxes.require()
            workspace = await self.workspaces.open(
                plan.run,
                plan.spec.workspace,
                given,
                in_conversation=plan.conversation is not None,
                has_end_user=plan.attribution.end_user is not None,
            )
            sandbox = await self.sandboxes.open(workspace, plan.spec.network)
        except SandboxUnavailable as error:
            log.error("run.start_failed", reason=str(error))  # noqa: TRY400 - no traceback needed
            raise port.ExecutionFailed("internal") from error
        try:
            yield sandbox
        finally:
            with anyio.CancelScope(shield=True):
                await sandbox.aclose()
                await self.workspaces.record_traffic(plan.run, sandbox.traffic)

    async def _run(self, request: GraphRunRequest, context: port.RunContext, sandbox: Sandbox | None) -> None:
        kept, context = await self._make_open_calls(context)
        plan, events, control = context.plan, context.events, context.control
        cli, initial_prompt = await self.starter.start(request, plan, sandbox=sandbox, kept=kept)
        # No await from here to the `try`: what was started must be released.
        channel = self._open_channel(context, at=cli.address)
        cli.attach_run(context, channel)
        stream = RunStream(
            plan,
            take_result=cli.bridge.calls.take_result,
            add_evidence=context.add_evidence,
            meter=self.auth.meter(plan, channel, cli.process),
        )
        leave = partial(cli.leave, lambda: (stream.message_id, stream.open_calls))
        watchdog, seen = Watchdog(context, cli.process, sandbox, leave=leave), SeenText()
        failure = None
        try:
            first = None if kept is not None else initial_prompt.content
            cli.process.send_first(first, keeps_open=bool(plan.keep_open))
            with control.inbox.forwarding_to(partial(_send_message, cli.process, stream)):
                # While the CLI works on the first prompt: it is needed for what has been answered.
                channel.prompts.continue_from(await self.prompts.load(plan.conversation))
                async for message in cli.process.messages():
                    await _publish(message, stream, context, calls=cli.bridge.calls, seen=seen)
                    watchdog.check_budget(channel)
                    if isinstance(message, ResultMessage):
                        await _keep_open(cli.process, stream, context, stopped=watchdog.outcome)
        except CliFailed as error:
            failure = await self._failure_of(error, cli.process)
        except UnexpectedCapabilities as error:
            log.error("cli.unexpected_capabilities", reason=loggable(str(error)))  # noqa: TRY400
        finally:
            watchdog.close()
            # Also when an event could not be published or the server stops: closing the channel records
            # the usage, and billing ends the run once this returns.
            with anyio.CancelScope(shield=True):
                await self.auth.close_channel(channel)
                stopped = watchdog.outcome or outcome_of_refusal(channel.refused, stream.last_stop)
                self.starter.release(cli, plan, clean=stopped is None and stream.is_clean)
                if sandbox is not None:
                    # No process may change the workspace while its files are collected.
                    await cli.process.exited.wait()
        await self.prompts.save(plan.conversation, channel.prompts, run=plan.run, attempt=plan.attempt)
        await _publish_rejected_part(channel, events)
        for event in stream.finish():
            await events.publish(event)
        await _leave_parked(cli, plan, stream)
        await self._complete_transcript(cli, context, stream, seen)
        if sandbox is not None and sandbox.filled:
            await self._store_files(plan, sandbox, events)
        is_silent = seen.is_silent and not channel.has_turns
        budget = channel.spent_budget
        answer = _answer(stream, stopped, budget=budget, failure=failure, is_silent=is_silent)
        final = await require_match(
            self.schemas,
            answer,
            plan.schemas.answer,
            account_id=plan.run.account_id,
        )
        await events.publish(final)

    async def _make_open_calls(
        self, context: port.RunContext
    ) -> tuple[Sequence[TranscriptEntry] | None, port.RunContext]:
        """Make the calls with which the run was parked.

        Returns its transcript, and the context with what is left of its time.
        """
        if context.plan.parked is None:
            return None, context
        began = time.monotonic()
        channel = self._open_channel(context, at=self.auth.new_address())
        try:
            entries = await OpenCalls(self.starter.launcher.sessions).make(context, channel)
        finally:
            with anyio.CancelScope(shield=True):
                await self.auth.close_channel(channel)
        left = max(timedelta(), context.plan.timeout - timedelta(seconds=time.monotonic() - began))
        return entries, replace(context, plan=replace(context.plan, timeout=left))

    async def _failure_of(self, error: CliFailed, process: CliProcess) -> port.AgentFailure | None:
        """Log how the CLI failed; None if that is not what ends the run."""
        if process.is_left:
            return None
        failure = None if process.killed else error.failure
        if failure == "not_started" and not os.access(self.starter.launcher.cli.path, os.X_OK):
            failure = "missing"
        log_failure = log.warning if process.killed else log.error
        stderr = [loggable(line) for line in process.stderr.lines]
        log_failure(
            "cli.failed", failure=failure, reason=loggable(str(error)), killed=process.killed, stderr=stderr
        )
        # Once another attempt begins, nothing may be stored for this one.
        await process.exited.wait()
        return failure

    async def _complete_transcript(
        self, cli: StartedCli, context: port.RunContext, stream: RunStream, seen: SeenText
    ) -> None:
        """Wait for lines that the SDK could not store, and add what the CLI drops."""
        has_broken_off = not stream.is_clean and seen.message_id is not None
        if stream.transcript_incomplete or has_broken_off:
            await cli.process.exited.wait()
        if has_broken_off:
            await store_unfinished(self.starter.launcher.sessions, context, seen)

    async def _store_files(self, plan: port.RunPlan, sandbox: Sandbox, events: port.EventSink) -> None:
        """Store what the run has left in its workspace, and publish what it has changed there."""
        notices = await self.workspaces.store_outputs(plan.run, plan.attempt, workspace=sandbox.workspace)
        for event in notices:
            await events.publish(event)

    def _open_channel(self, context: port.RunContext, *, at: ChannelAddress) -> Channel:
        plan = context.plan
        hooks = self.metering.hooks_for(
            plan, executor_type=EXECUTOR_TYPE, trace=context.trace, add_evidence=context.add_evidence
        )
        channel = self.auth.open_channel(plan, channel_limits(plan), hooks, at=at)
        attach_control(channel, context)
        return channel


def _send_message(process: CliProcess, stream: RunStream, sent: SentMessage) -> None:
    process.send(sent.message_id, user_content([sent.message]), priority=sent.priority)
    stream.expect_message(sent)


async def _publish(
    message: Message, stream: RunStream, context: port.RunContext, *, calls: ToolCalls, seen: SeenText
) -> None:
    for event in stream.feed(message):
        await context.events.publish(event)
        calls.on_published(event)
        seen.feed(event)
    # The transcript has all of a complete message, but not what a subagent has done.
    can_park = calls.is_complete and not stream.has_subagents
    context.control.can_park = can_park and may_be_parked(context.plan)


async def _keep_open(
    process: CliProcess, stream: RunStream, context: port.RunContext, *, stopped: port.RunOutcome | None
) -> None:
    """After a turn: wait for the next message, or end the run if it was kept open."""
    if not process.run.is_idle:
        return
    if stream.has_answer and stopped is None:
        await context.control.keep_open(context.plan.keep_open, process.run.finished)
    process.close_open_run()


async def _leave_parked(cli: StartedCli, plan: port.RunPlan, stream: RunStream) -> None:
    """Raise `RunParked` if the CLI was left, once everything that it has written is stored."""
    if cli.process.is_left:
        await cli.process.exited.wait()
        written = [] if cli.session is None else cli.session.written
        raise parked(plan, written, steps=stream.steps)


async def _publish_rejected_part(channel: Channel, events: port.EventSink) -> None:
    """Name the attachment that the provider refuses; the CLI may have gone on without it."""
    if channel.rejection is None:
        return
    # A request may have 32 MB.
    warning = await asyncio.to_thread(rejected_part, channel.rejection)
    if warning is not None:
        await events.publish(warning)


def _answer(
    stream: RunStream,
    stopped: port.RunOutcome | None,
    *,
    budget: SpentBudget | None,
    failure: port.AgentFailure | None,
    is_silent: bool,
) -> AssistantFinal:
    try:
        return stream.answer(stopped, budget)
    except port.ExecutionFailed as error:
        if failure is not None and error.outcome == port.INTERNAL:
            raise port.AgentFailed(failure, is_silent=is_silent) from error
        # The provider's error text goes to the log only, never to a client.
        if error.outcome != port.ABORTED:
            log.warning("run.no_answer", outcome=error.outcome, reason=stream.failure_details())
        raise
