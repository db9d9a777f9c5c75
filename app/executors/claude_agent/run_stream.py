"""RunStream: turns one run's SDK messages into AiEvents and its outcome; no I/O."""

from collections.abc import Callable, Iterable, Iterator

from claude_agent_sdk import AssistantMessage, Message, MirrorErrorMessage, ResultMessage, SystemMessage

from app.events import AiEvent, AssistantFinal, MeterReport, ToolCallResult, UsageReport
from app.executors.claude_agent.mapper import EventMapper
from app.executors.claude_agent.meters.port import RunMeter
from app.executors.claude_agent.meters.usage import MeteredMessage, UsageFold
from app.executors.claude_agent.options.init_check import check_init
from app.executors.claude_agent.options.sdk_options import cli_tools
from app.executors.claude_agent.result import answer, failure, stop_of
from app.executors.claude_agent.tools.names import (
    AGENT_TOOL_AT_START,
    SERVER_NAME,
    STRUCTURED_OUTPUT,
    bridged_name,
)
from app.executors.evidence import AddEvidence, agent_announced, keep_none
from app.executors.port import BUDGET, ExecutionFailed, RunOutcome, RunPlan
from app.executors.text import loggable
from app.executors.tools.questions import without_questions
from app.graphs.spec import AGENT_TOOL
from app.requests.messages import SentMessage
from app.requests.outcome import SpentBudget
from runtally.tools.result import ToolResult


class RunStream:
    """Feed it every SDK message of a run in order, then call `finish` and `answer`."""

    def __init__(
        self,
        plan: RunPlan,
        *,
        take_result: Callable[[str], ToolResult | None],
        meter: RunMeter,
        add_evidence: AddEvidence = keep_none,
    ) -> None:
        self._plan = plan
        self._add_evidence = add_evidence
        self._meter = meter
        self._usage = UsageFold()
        self._result: ResultMessage | None = None
        self._tool_failures = 0
        self._last_error: str | None = None
        self._any_error = False
        self.last_stop: str | None = None
        """The stop reason of the main agent's last message."""
        self.transcript_incomplete = False
        """Whether the SDK failed to store lines of the conversation's transcript."""
        self._mapper = EventMapper(
            tool_ids=frozenset(tool.id for tool in plan.tools),
            cli_tools=frozenset(cli_tools(plan.spec)),
            take_result=take_result,
            show_thinking=plan.spec.show_thinking,
            step_budget=plan.limits.max_turns,
            steps=steps_of(plan),
        )

    def feed(self, message: Message) -> Iterator[AiEvent]:
        """The events of one SDK message; raises `UnexpectedCapabilities`."""
        match message:
            case SystemMessage(subtype="init", data=init):
                self._add_evidence(agent_announced(init))
                check_init(init, tools=self._expected_tools(), servers=self._expected_servers())
                # A new turn: the result of the previous one is not the run's result.
                self._result = self._last_error = None
            case AssistantMessage(error=error) if error is not None:
                self._last_error, self._any_error = error, True
            case ResultMessage():
                self._result = message
            case MirrorErrorMessage():
                self.transcript_incomplete = True
            case _:
                pass
        self._meter.observe(message)
        for event in self._mapper.feed(message):
            self._tool_failures += isinstance(event, ToolCallResult) and event.is_error
            yield event
        yield from self._report(self._usage.feed(message))

    def expect_message(self, sent: SentMessage) -> None:
        """Publish this message as delivered once the agent starts to process it."""
        self._mapper.expect(sent)

    def finish(self) -> Iterator[AiEvent]:
        """Report the remaining usage; the CLI has ended and the gateway channel is closed."""
        yield from self._report(self._usage.finish())
        yield from map(UsageReport, self._meter.finish())
        yield MeterReport(self._meter.summary(), tool_failures=self._tool_failures)

    def answer(self, stopped: RunOutcome | None, budget: SpentBudget | None = None) -> AssistantFinal:
        """The answer; raises `ExecutionFailed` if there is none.

        `stopped`: why we stopped the run; `budget`: the one that its account has used up.
        """
        result = self._result
        if stopped == BUDGET:
            raise ExecutionFailed(*BUDGET)
        stop = None if result is None else stop_of(result)
        if result is not None and self.has_answer:
            return answer(result, self._mapper.last_text)
        if stopped is not None:
            raise ExecutionFailed(*stopped, budget)
        if result is None or stop is None or stop == "natural":
            raise ExecutionFailed("internal")
        raise ExecutionFailed(*failure(result, stop, last_error=self._last_error, last_stop=self.last_stop))

    @property
    def message_id(self) -> str | None:
        return self._mapper.last_message_id

    @property
    def open_calls(self) -> set[str]:
        """The ids of the calls without a result."""
        return self._mapper.open_calls

    @property
    def steps(self) -> int:
        """The steps so far."""
        return self._mapper.steps

    @property
    def has_subagents(self) -> bool:
        """Whether a subagent is at work."""
        return self._mapper.has_subagents

    @property
    def has_answer(self) -> bool:
        """Whether the last turn has ended by itself, with every message answered."""
        # While messages are unprocessed, the last result does not answer them.
        answered = self._result is not None and stop_of(self._result) == "natural"
        return answered and not self._mapper.expects_messages

    @property
    def is_clean(self) -> bool:
        """Whether the run ended by itself, without an error on the way and with every message answered."""
        return self.has_answer and not (self._any_error or self.transcript_incomplete)

    def failure_details(self) -> str | None:
        """The CLI's description of the failure. May hold the provider's text: for the log only."""
        result = self._result
        if result is None:
            return None
        parts = [result.terminal_reason, result.api_error_status, result.result, *(result.errors or ())]
        return loggable(" | ".join(str(part) for part in parts if part))

    def _report(self, messages: Iterable[MeteredMessage]) -> Iterator[AiEvent]:
        for message in messages:
            if message.parent_tool_call_id is None:
                self.last_stop = message.stop_reason
            yield from map(UsageReport, self._meter.feed(message))
            yield from self._mapper.step_events(message)

    def _expected_tools(self) -> set[str]:
        names = {bridged_name(tool.id) for tool in without_questions(self._plan)}
        names |= {AGENT_TOOL_AT_START} if self._plan.spec.agents else set()
        names |= set(cli_tools(self._plan.spec)) - {AGENT_TOOL}
        return names | ({STRUCTURED_OUTPUT} if self._plan.schemas.answer else set())

    def _expected_servers(self) -> set[str]:
        return {SERVER_NAME} if without_questions(self._plan) else set()


def steps_of(plan: RunPlan) -> int:
    """The steps of the run before it was parked."""
    return 0 if plan.parked is None else int(plan.parked["steps"])
