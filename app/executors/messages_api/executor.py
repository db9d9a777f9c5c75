"""MessagesExecutor: runs a graph with the Messages API; a run is one task of this process."""

import asyncio
from dataclasses import dataclass

import anyio
import structlog

from app.conversations.prompt_store import PromptStore
from app.conversations.transcript_store import TranscriptStore
from app.events import AssistantFinal, MeterReport
from app.executors.deadline import RunDeadline
from app.executors.messages_api.client import MessagesClient
from app.executors.messages_api.exchange import ModelCalls
from app.executors.messages_api.loop import AgentLoop
from app.executors.messages_api.meter import EXECUTOR_TYPE, LoopMeter
from app.executors.messages_api.output_format import load_output_format
from app.executors.messages_api.request import AgentRequest
from app.executors.messages_api.transcript import RunTranscript
from app.executors.metering import Metering, attach_control, channel_limits
from app.executors.port import ABORTED, ExecutionFailed, RunContext, RunParked
from app.executors.structured_output import require_match
from app.executors.tools.calls import ToolCalls
from app.executors.tools.client_tools import with_client_tools
from app.executors.tools.questions import with_questions
from app.executors.tools.servers import connected_tools
from app.executors.tools.turn import ToolTurn
from app.gateway.channel import Channel
from app.gateway.proxy import Gateway
from app.platform.background import first_of, run_to_completion
from app.platform.json_schema.checker import SchemaChecker
from app.requests.run_request import GraphRunRequest
from app.tools.mcp.servers import McpConnector

log = structlog.get_logger(__name__)

NO_KEY = "ANTHROPIC_API_KEY is not set"


@dataclass(frozen=True, slots=True)
class MessagesExecutor:
    """Implements the `GraphExecutor` port."""

    gateway: Gateway
    client: MessagesClient
    metering: Metering
    store: TranscriptStore
    prompts: PromptStore
    servers: McpConnector
    schemas: SchemaChecker
    cache_ttl: str
    """How long the provider keeps prompts in its cache."""

    async def run(self, request: GraphRunRequest, context: RunContext) -> None:
        """See the port."""
        if not self.gateway.has_key:
            log.error("run.start_failed", reason=NO_KEY)
            raise ExecutionFailed("provider_unavailable")
        deadline = RunDeadline(context.control, context.plan.timeout)
        context.control.can_park = True
        await load_output_format(context.plan)
        async with connected_tools(self.servers, context) as connected:
            final = await self._run(
                request, with_client_tools(with_questions(connected), self.schemas), deadline
            )
        final = await require_match(
            self.schemas, final, context.plan.schemas.answer, account_id=context.plan.run.account_id
        )
        await context.events.publish(final)

    async def _run(
        self, request: GraphRunRequest, context: RunContext, deadline: RunDeadline
    ) -> AssistantFinal:
        plan = context.plan
        channel = self._open_channel(context)
        transcript = RunTranscript(self.store, plan)
        loop = self._loop(request, context, channel, transcript=transcript)
        try:
            channel.prompts.continue_from(await self.prompts.load(plan.conversation))
            if not await loop.resume():
                await transcript.load(request.messages)
            with context.control.inbox.forwarding_to(loop.waiting.add):
                return await _run_in_time(loop, context, deadline)
        finally:
            # Billing ends the run once this returns.
            await run_to_completion(self._close(loop, context, channel))

    def _open_channel(self, context: RunContext) -> Channel:
        plan = context.plan
        hooks = self.metering.hooks_for(
            plan, executor_type=EXECUTOR_TYPE, trace=context.trace, add_evidence=context.add_evidence
        )
        channel = self.gateway.open_channel(plan.run.run_id, channel_limits(plan), hooks)
        attach_control(channel, context)
        return channel

    def _loop(
        self, request: GraphRunRequest, context: RunContext, channel: Channel, *, transcript: RunTranscript
    ) -> AgentLoop:
        plan = context.plan
        tools = ToolCalls(plan)
        tools.attach_run(context, channel)
        calls = ModelCalls(
            context=context,
            client=self.client,
            channel=channel,
            request=AgentRequest.of(plan, request.messages, ttl=self.cache_ttl),
            transcript=transcript,
            tools=tools,
            meter=LoopMeter(plan, channel),
        )
        return AgentLoop(context, calls, ToolTurn(tools, context.events))

    async def _close(self, loop: AgentLoop, context: RunContext, channel: Channel) -> None:
        """Close the channel, report what was not, and wait until the conversation is stored."""
        await self.gateway.close_channel(channel)
        try:
            await loop.calls.report(ended=True)
            failures = loop.tools.failures + loop.calls.tool_failures
            report = MeterReport(loop.calls.meter.summary(), tool_failures=failures)
            await context.events.publish(report)
        finally:
            await loop.calls.transcript.close(context.control.closing)
            plan = context.plan
            await self.prompts.save(plan.conversation, channel.prompts, run=plan.run, attempt=plan.attempt)


async def _run_in_time(loop: AgentLoop, context: RunContext, deadline: RunDeadline) -> AssistantFinal:
    """The answer; raises `ExecutionFailed` if the run is stopped before, and `RunParked`."""
    running, parking = asyncio.create_task(loop.run()), context.control.parking
    try:
        while not running.done():
            first = await first_of(parking.wait(), running, deadline.next_stop())
            if parking.is_set():
                raise RunParked(loop.park())
            if first is None or first.index == 1:
                break
            if loop.close_open_run():
                # Its answer is complete, whatever ends it.
                await asyncio.wait({running})
                break
            if first.result is None and loop.waiting:
                await _interrupt_turn(loop, context)
                continue
            # An interrupt without another message to continue with ends the run.
            deadline.stop(ABORTED)
            await context.control.acknowledge()
            break
    finally:
        running.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait({running})
    if running.cancelled():
        raise ExecutionFailed(*(deadline.outcome or ABORTED))
    return running.result()


async def _interrupt_turn(loop: AgentLoop, context: RunContext) -> None:
    loop.interrupt()
    await asyncio.gather(loop.turn_ended(), context.control.acknowledge())
    await context.control.mark_stopped()
