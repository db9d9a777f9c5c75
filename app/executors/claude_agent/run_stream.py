"""Everything heard of a run so far: SDK messages in, AiEvents out, and how it ended; a fold."""

from collections.abc import Iterable, Iterator, Mapping

from claude_agent_sdk import AssistantMessage, Message, MirrorErrorMessage, ResultMessage, SystemMessage
from claude_agent_sdk.types import AssistantMessageError

from app.events import AiEvent, AssistantFinal, MeterReport, UsageReport
from app.executors.claude_agent.mapper import EventMapper
from app.executors.claude_agent.metering.meters import RunMeter
from app.executors.claude_agent.options.init_check import check_init
from app.executors.claude_agent.options.sdk_options import native_tools
from app.executors.claude_agent.result import answer, failure, stop_of
from app.executors.claude_agent.tools.names import (
    AGENT_TOOL_AT_START,
    SERVER_NAME,
    STRUCTURED_OUTPUT,
    bridged_name,
)
from app.executors.claude_agent.usage import MeteredMessage, UsageFold
from app.executors.port import BUDGET, ExecutionFailed, RunContext, RunOutcome
from app.executors.text import loggable
from app.requests import ResponseFormat, SentMessage
from app.tools.result import ToolResult


class RunStream:
    """One run's conversation with the CLI."""

    def __init__(
        self,
        context: RunContext,
        *,
        wanted: ResponseFormat | None,
        results: Mapping[str, ToolResult],
        meters: RunMeter,
    ) -> None:
        self._context = context
        self._meters = meters
        self._wanted = wanted
        self._usage = UsageFold()
        self._result: ResultMessage | None = None
        self._last_error: AssistantMessageError | None = None
        self.unkept = False
        """Whether some of what was said could not be kept in the conversation yet."""
        self._mapper = EventMapper(
            tool_ids=frozenset(tool.id for tool in context.tools),
            native=frozenset(native_tools(context.spec)),
            results=results,
            show_thinking=context.spec.show_thinking,
            step_budget=context.limits.max_turns,
        )

    def feed(self, message: Message) -> Iterator[AiEvent]:
        """Events of one SDK message; raises `UnexpectedCapabilities` when the CLI offers too much."""
        match message:
            case SystemMessage(subtype="init", data=init):
                check_init(init, tools=self._expected_tools(), servers=self._expected_servers())
                # A turn begins: what ended the one before is not how this one ends.
                self._result = self._last_error = None
            case AssistantMessage(error=error) if error is not None:
                self._last_error = error
            case ResultMessage():
                self._result = message
            case MirrorErrorMessage():
                self.unkept = True
            case _:
                pass
        self._meters.show(message)
        yield from self._mapper.feed(message)
        yield from self._state(self._usage.feed(message))

    def expect(self, sent: SentMessage) -> None:
        """A message was sent to the agent: say so when it takes it up."""
        self._mapper.sent[sent.message_id] = sent

    def cut_off(self, *, tool_failures: int) -> Iterator[AiEvent]:
        """Nothing more will come and the lane is closed: state what was still open or never shown."""
        yield from self._state(self._usage.finish())
        yield from map(UsageReport, self._meters.close())
        yield MeterReport(self._meters.report(), tool_failures=tool_failures)

    def answer(self, stopped: RunOutcome | None) -> AssistantFinal:
        """The answer; raises `ExecutionFailed` when there is none. `stopped`: why we ended it."""
        result = self._result
        if stopped == BUDGET:
            raise ExecutionFailed(*BUDGET)
        stop = None if result is None else stop_of(result)
        # With messages the agent never took up, what it said last is no answer to them.
        if result is not None and stop == "natural" and not self._mapper.sent:
            return answer(result)
        if stopped is not None:
            raise ExecutionFailed(*stopped)
        if result is None or stop is None or stop == "natural":
            raise ExecutionFailed("internal")
        raise failure(result, stop, self._last_error)

    def reason(self) -> str | None:
        """What the CLI said of the end: it may hold the provider's words, so it is never shown."""
        result = self._result
        if result is None:
            return None
        said = [result.terminal_reason, result.api_error_status, result.result, *(result.errors or ())]
        return loggable(" | ".join(str(part) for part in said if part))

    def _state(self, messages: Iterable[MeteredMessage]) -> Iterator[AiEvent]:
        for message in messages:
            yield from map(UsageReport, self._meters.feed(message))
            yield from self._mapper.completed(message)

    def _expected_tools(self) -> set[str]:
        names = {bridged_name(tool.id) for tool in self._context.tools}
        names |= {AGENT_TOOL_AT_START} if self._context.spec.agents else set()
        names |= set(self._context.spec.native_tools)
        return names | ({STRUCTURED_OUTPUT} if self._wanted else set())

    def _expected_servers(self) -> set[str]:
        return {SERVER_NAME} if self._context.tools else set()
