"""ClaudeAgentExecutor: runs a graph with the Claude Agent SDK, one CLI process per run."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import structlog

from app.events import AiEvent
from app.executors.claude_agent.directories import RunDirectory
from app.executors.claude_agent.environment import cli_environment, launcher
from app.executors.claude_agent.mcp_bridge import McpBridge
from app.executors.claude_agent.options import build_options
from app.executors.claude_agent.process import CliFailed, CliProcess
from app.executors.claude_agent.prompt import system_prompt, user_content
from app.executors.claude_agent.surface import UnexpectedSurface
from app.executors.claude_agent.turn import Turn
from app.executors.port import ABORTED, BUDGET, TIMEOUT, Ending, ExecutionFailed, RunContext
from app.graph import GraphRunRequest

log = structlog.get_logger(__name__)


class ClaudeAgentExecutor:
    """Owns one SDK client for one run; implements the `GraphExecutor` port."""

    def __init__(self, *, cli: Path, api_key: str | None, base_url: str, directory: Path) -> None:
        """`directory` takes one folder per run and must exist."""
        self._cli = cli
        self._api_key = api_key
        self._base_url = base_url
        self._directory = directory
        self._owners: set[asyncio.Task[None]] = set()

    async def run(
        self,
        request: GraphRunRequest,
        context: RunContext,
    ) -> AsyncGenerator[AiEvent, None]:
        """See the port."""
        bridge = McpBridge(context)
        turn = Turn(context, wanted=request.response_format, results=bridge.results)
        process = await self._start(request, context, bridge)
        guard = _Guard(process, context)
        try:
            async for event in _converse(process, turn, guard):
                yield event
        finally:
            guard.cancel()
            process.kill()

    async def aclose(self) -> None:
        """Wait until every CLI process is gone and its folder removed."""
        await asyncio.gather(*self._owners)

    async def _start(
        self,
        request: GraphRunRequest,
        context: RunContext,
        bridge: McpBridge,
    ) -> CliProcess:
        if self._api_key is None:
            log.error("a run cannot start: ANTHROPIC_API_KEY is not set")
            raise ExecutionFailed("provider_unavailable")
        directory = await asyncio.to_thread(RunDirectory, self._directory)
        environment = cli_environment(
            api_key=self._api_key,
            base_url=self._base_url,
            directory=directory.path,
            longest_tool_s=max((tool.timeout_s for tool in context.tools), default=0),
        )
        prompt = system_prompt(context.spec.system_prompt, request.messages)
        directory.system_prompt_file.write_text(prompt, encoding="utf-8")
        options = build_options(
            context,
            launcher=directory.write_launcher(
                launcher(self._cli, environment, pid_file=directory.pid_file),
            ),
            directory=directory,
            server=bridge.server(),
            response_format=request.response_format,
        )
        process = CliProcess(options, directory)
        owner = asyncio.create_task(process.own(user_content(request.messages)))
        self._owners.add(owner)
        owner.add_done_callback(self._owners.discard)
        return process


class _Guard:
    """Stops the CLI when somebody cancels, time is up or the token budget is used."""

    def __init__(self, process: CliProcess, context: RunContext) -> None:
        self._process = process
        self._context = context
        self._spent = asyncio.Event()
        self._task = asyncio.create_task(self._watch())
        self.stopped: Ending | None = None
        """Why the CLI was stopped, once it was."""

    def count(self, total_tokens: int) -> None:
        """Say how many tokens the run has used by now."""
        limit = self._context.limits.max_total_tokens
        if limit is not None and total_tokens >= limit:
            self.stopped = self.stopped or BUDGET
            self._spent.set()

    def cancel(self) -> None:
        """The run is over."""
        self._task.cancel()

    async def _watch(self) -> None:
        reasons = {
            asyncio.create_task(self._context.stop.wait()): ABORTED,
            asyncio.create_task(self._spent.wait()): BUDGET,
        }
        try:
            done, _ = await asyncio.wait(
                reasons,
                timeout=self._context.timeout.total_seconds(),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for task in reasons:
                task.cancel()
        self.stopped = self.stopped or next((reasons[task] for task in done), TIMEOUT)
        await self._process.stop()


async def _converse(process: CliProcess, turn: Turn, guard: _Guard) -> AsyncGenerator[AiEvent, None]:
    try:
        async for message in process.messages():
            for event in turn.feed(message):
                yield event
            guard.count(turn.total_tokens)
    except UnexpectedSurface as error:
        log.error("refused to go on", reason=str(error))  # noqa: TRY400 - no traceback needed
        process.kill()
    except CliFailed as error:
        log.error("the CLI failed", reason=str(error), stderr=list(process.stderr))  # noqa: TRY400
    for event in turn.cut_off():
        yield event
    try:
        answer = turn.answer(guard.stopped)
    except ExecutionFailed as error:
        # The provider's own words are for the operator alone.
        log.warning("a run ended without an answer", ending=error.ending, reason=turn.reason())
        raise
    yield answer
