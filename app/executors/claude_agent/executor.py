"""ClaudeAgentExecutor: runs a graph with the Claude Agent SDK, one CLI process per run."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from functools import partial
from pathlib import Path

import structlog
from claude_agent_sdk import Message

from app.events import AiEvent, AssistantFinal
from app.executors.claude_agent.access import ModelAccess
from app.executors.claude_agent.billing import LaneBilling
from app.executors.claude_agent.cli import Cli
from app.executors.claude_agent.conversation import Conversation, Opening
from app.executors.claude_agent.directories import RunDirectory
from app.executors.claude_agent.environment import launcher
from app.executors.claude_agent.guard import Guard
from app.executors.claude_agent.mcp_bridge import McpBridge
from app.executors.claude_agent.meters import RunMeter
from app.executors.claude_agent.options import build_options
from app.executors.claude_agent.process import CliFailed, CliProcess
from app.executors.claude_agent.prompt import content_blocks, system_prompt, user_content
from app.executors.claude_agent.shown_options import shown
from app.executors.claude_agent.surface import UnexpectedSurface
from app.executors.claude_agent.turn import Turn
from app.executors.port import (
    BUDGET,
    INTERNAL,
    MAX_TURNS,
    NO_CREDIT,
    TIMEOUT,
    Ending,
    ExecutionFailed,
    Preview,
    RunContext,
)
from app.gateway.lane import Lane, Refusal
from app.graph import GraphRunRequest, SentMessage
from app.ids import new_uuid
from app.sessions.store import PostgresSessionStore

log = structlog.get_logger(__name__)

ENDINGS: Mapping[Refusal | None, Ending] = {
    "deadline": TIMEOUT,
    "turns": MAX_TURNS,
    "budget": BUDGET,
    "credit": NO_CREDIT,
    "journal": INTERNAL,
}
"""How a run ends whose call the gateway refused."""


class ClaudeAgentExecutor:
    """Owns one SDK client for one run; implements the `GraphExecutor` port."""

    def __init__(
        self,
        *,
        cli: Cli,
        directory: Path,
        access: ModelAccess,
        billing: LaneBilling,
        sessions: PostgresSessionStore,
    ) -> None:
        """`directory` takes one folder per run and must exist."""
        self._cli = cli
        self._directory = directory
        self._access = access
        self._billing = billing
        self._sessions = sessions
        self._owners: set[asyncio.Task[None]] = set()

    async def run(
        self,
        request: GraphRunRequest,
        context: RunContext,
    ) -> AsyncGenerator[AiEvent, None]:
        """See the port."""
        if (missing := self._access.missing) is not None:
            log.error("a run cannot start", reason=missing)
            raise ExecutionFailed("provider_unavailable")
        lane = self._access.open(context, *self._billing.lane(context))
        meters = self._access.meter(context, lane)
        bridge = McpBridge(context, lane)
        turn = Turn(
            context,
            wanted=request.response_format,
            results=bridge.results,
            meters=meters,
        )
        guard = Guard(context)
        try:
            process = await self._start(request, context, bridge, lane, meters=meters)
            context.control.accept_by(partial(_pass_on, process, turn))
            guard.watch(process)
            async for message in _heard(process):
                for event in turn.feed(message):
                    yield event
                    bridge.told(event)
                guard.check(lane)
        except UnexpectedSurface as error:
            log.error("refused to go on", reason=str(error))  # noqa: TRY400 - no traceback needed
        finally:
            guard.end()
            # Also when nobody hears what is yielded below: the numbers are noted as they come.
            await self._access.close(lane)
        for event in turn.cut_off():
            yield event
        if turn.unkept:
            await process.gone.wait()
        yield _answer(turn, guard.stopped or ENDINGS.get(lane.refused))

    def preview(self, request: GraphRunRequest, context: RunContext) -> Preview:
        """See the port."""
        # A lane the gateway has never heard of: nothing gets through it.
        lane = Lane(context.run.run_id, "", "", *self._billing.lane(context))
        options = build_options(
            context,
            launcher=Path(),
            system_prompt_file=Path(),
            work=Path(),
            server=McpBridge(context, lane).server(),
            response_format=request.response_format,
            bare=self._access.bare,
        )
        return Preview(
            system_prompt=system_prompt(context.spec.system_prompt, request.messages),
            prompt=content_blocks(request.messages),
            options=shown(options),
        )

    async def aclose(self) -> None:
        """Wait until every CLI process is gone and its folder removed."""
        await asyncio.gather(*self._owners)

    async def _start(
        self,
        request: GraphRunRequest,
        context: RunContext,
        bridge: McpBridge,
        lane: Lane,
        *,
        meters: RunMeter,
    ) -> CliProcess:
        conversation, opening = None, Opening.of(context, request.messages)
        if context.session is not None:
            conversation = Conversation(self._sessions, context.session, context.run)
            opening = await conversation.open(context, request.messages)
        directory = await asyncio.to_thread(RunDirectory, self._directory, login=self._access.login)
        environment = self._access.environment(
            lane,
            directory=directory.path,
            longest_tool_s=bridge.longest_call_s,
            asked=context.options,
        )
        directory.system_prompt_file.write_text(opening.system_prompt, encoding="utf-8")
        options = build_options(
            context,
            launcher=directory.write_launcher(
                launcher(self._cli.path, {**environment, **self._cli.extra}, pid_file=directory.pid_file),
            ),
            system_prompt_file=directory.system_prompt_file,
            work=directory.work,
            server=bridge.server(),
            response_format=request.response_format,
            bare=self._access.bare,
        )
        if conversation is not None:
            await asyncio.to_thread(conversation.lay_out, directory)
            conversation.take_part(options, directory)
        catch_up = None if conversation is None else conversation.catch_up
        process = CliProcess(options, directory, before_asking=meters.begin, before_removal=catch_up)
        process.say(str(new_uuid()), opening.content)
        owner = asyncio.create_task(process.own())
        self._owners.add(owner)
        owner.add_done_callback(self._owners.discard)
        return process


def _pass_on(process: CliProcess, turn: Turn, sent: SentMessage) -> None:
    process.say(sent.message_id, user_content([sent.message]), priority=sent.priority)
    turn.expect(sent)


async def _heard(process: CliProcess) -> AsyncIterator[Message]:
    try:
        async for message in process.messages():
            yield message
    except CliFailed as error:
        log.error("the CLI failed", reason=str(error), stderr=list(process.stderr))  # noqa: TRY400


def _answer(turn: Turn, stopped: Ending | None) -> AssistantFinal:
    try:
        return turn.answer(stopped)
    except ExecutionFailed as error:
        # The provider's own words are for the operator alone.
        log.warning("a run ended without an answer", ending=error.ending, reason=turn.reason())
        raise
