"""Our events -> AG-UI's, version 1.0: a fold without I/O that closes what it opened.

What must be open when, and what must be closed, is what `verifyEvents` of @ag-ui/client demands.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    Interrupt,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    StepFinishedEvent,
    StepStartedEvent,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentFinishedSuspendedOutcome,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pydantic import JsonValue
from pydantic_core import to_json

from app.events import (
    AssistantFinal,
    Done,
    Interrupted,
    PermissionRequest,
    PermissionResolved,
    Queued,
    RunError,
    RunStarted,
    Status,
    Step,
    TextDelta,
    ThinkingDelta,
    ToolCallResult,
    ToolCallStart,
    UserMessageDelivered,
)
from app.http.ag_ui.interrupt import OURS, InterruptId, interrupt_of
from app.http.ag_ui.message_builder import MessageBuilder
from app.requests import ErrorCode, FinalUsage
from app.streams.port import LogEntry

SENTENCES: Final[dict[ErrorCode, str]] = {
    "invalid_request": "The request is not valid.",
    "not_found": "Something the run needs does not exist.",
    "timeout": "The run took too long or too many turns.",
    "rate_limit": "A limit of the run or of the model provider is used up.",
    "internal": "Something went wrong on our side.",
    "insufficient_credits": "The account has no credit left.",
    "provider_unavailable": "The model provider cannot be reached or refuses us.",
}


@dataclass(frozen=True, slots=True)
class _Call:
    """A tool call, as far as a subagent begins with it."""

    name: str
    parent: str | None


class AgUiEventMapper:
    """One run, or what follows in it after an interrupt, told in AG-UI's events.

    Feed every entry in order. RUN_STARTED and MESSAGES_SNAPSHOT are for whoever tells it to say.
    """

    def __init__(self, *, thread_id: str, run_id: str, our_run_id: str) -> None:
        """`run_id` is what the client calls its run, `our_run_id` the run that is carried here."""
        self._thread_id = thread_id
        self._run_id = run_id
        self._our_run_id = our_run_id
        self._speakers: dict[str | None, MessageBuilder] = {}
        self._calls: dict[str, _Call] = {}
        self._working: dict[str, bool] = {}
        self._steps = 0
        self._step: str | None = None
        self._message: str | None = None
        self._final: AssistantFinal | None = None
        self._error: ErrorCode | None = None
        self._position = 0
        self._asked: dict[str, PermissionRequest] = {}
        self.ended = False

    @property
    def asking(self) -> bool:
        """Whether a person must decide about something."""
        return bool(self._asked) and not self.ended

    @property
    def in_step(self) -> bool:
        """Whether the agent has begun a step and not ended it: there may be more to decide about."""
        return self._step is not None

    def start_over(self) -> None:
        """Nothing is open: a run of AG-UI's begins, whatever was said in one before."""
        self._speakers.clear()
        self._working.clear()
        self._asked.clear()
        self._step = self._message = None

    def tell(self, entry: LogEntry) -> Iterator[BaseEvent]:
        """The events of one entry; none once the run of AG-UI's has ended."""
        if not self.ended:
            self._position = entry.position
            yield from self._tell(entry)

    def interrupt(self) -> Iterator[BaseEvent]:
        """End here, with what a person must decide about."""
        interrupts = [
            interrupt_of(
                InterruptId(self._our_run_id, self._position, request.request_id),
                request,
                subagent=self._subagent_of(request),
            )
            for request in self._asked.values()
        ]
        outcome = RunFinishedInterruptOutcome(type="interrupt", interrupts=interrupts)
        yield from self._close(suspended=interrupts)
        yield self._finished(outcome=outcome)
        self.ended = True

    def _tell(self, entry: LogEntry) -> Iterator[BaseEvent]:
        match entry.event:
            case TextDelta() | ThinkingDelta() as more:
                yield from self._speech(more, entry.position)
            case ToolCallStart() as call:
                yield from self._call(call)
            case ToolCallResult() as result:
                yield from self._result(result)
            case Step() as step:
                yield from self._end_step(step)
            case UserMessageDelivered() as message:
                yield from self._of_user(message)
            case PermissionRequest() as request:
                self._asked[request.request_id] = request
            case AssistantFinal() | RunError() | Done() as event:
                yield from self._outcome(event)
            case event:
                yield from self._aside(event)

    def _speech(self, more: TextDelta | ThinkingDelta, position: int) -> Iterator[BaseEvent]:
        subagent = more.parent_tool_call_id
        yield from self._heard_of(subagent)
        speaker = self._speaker(subagent)
        if isinstance(more, ThinkingDelta):
            yield from speaker.think(more.message_id, more.delta, position=position)
        else:
            if subagent is None:
                self._message = more.message_id
            yield from speaker.say(more.message_id, more.delta)

    def _of_user(self, message: UserMessageDelivered) -> Iterator[BaseEvent]:
        yield from self._speaker(None).close()
        yield TextMessageStartEvent(message_id=message.message_id, role="user")
        yield TextMessageContentEvent(message_id=message.message_id, delta=message.content)
        yield TextMessageEndEvent(message_id=message.message_id)

    def _aside(
        self, event: Queued | Status | Interrupted | PermissionResolved | RunStarted
    ) -> Iterator[BaseEvent]:
        """What AG-UI has no event for, under the name and with the fields it has on our own wire."""
        if isinstance(event, RunStarted):
            # A later attempt begins anew: what the first one had open was cut off, and waits no more.
            self._asked.clear()
            yield from self._close(failed=True)
        elif isinstance(event, PermissionResolved):
            self._asked.pop(event.request_id, None)
        value = event.model_dump(mode="json", by_alias=True, exclude={"type", "parent_tool_call_id"})
        yield CustomEvent(name=event.type, value=value, subagent_run_id=event.parent_tool_call_id)

    def _outcome(self, event: AssistantFinal | RunError | Done) -> Iterator[BaseEvent]:
        match event:
            case AssistantFinal():
                self._final = event
            case RunError(error=error):
                self._error = error
            case Done(usage=usage, finish_reason=reason):
                yield from self._close(failed=self._error is not None)
                yield self._end(_usage(usage), reason)
                self.ended = True

    def _speaker(self, subagent: str | None) -> MessageBuilder:
        return self._speakers.setdefault(subagent, MessageBuilder(subagent))

    def _heard_of(self, subagent: str | None) -> Iterator[BaseEvent]:
        """Whoever speaks must have begun: the agent a step, a subagent its work."""
        if subagent is None:
            if self._step is None:
                self._step = f"step {self._steps + 1}"
                yield StepStartedEvent(step_name=self._step)
        elif subagent not in self._working:
            self._working[subagent] = True
            call = self._calls.get(subagent, _Call("agent", None))
            if call.parent is not None:
                yield from self._heard_of(call.parent)
            yield SubagentStartedEvent(
                subagent_run_id=subagent,
                name=call.name,
                parent_tool_call_id=subagent,
                parent_subagent_run_id=call.parent,
            )

    def _call(self, call: ToolCallStart) -> Iterator[BaseEvent]:
        call_id, parent = call.tool_call_id, call.parent_tool_call_id
        self._calls[call_id] = _Call(_agent_name(call), parent)
        yield from self._heard_of(parent)
        yield from self._speaker(parent).close()
        yield ToolCallStartEvent(
            tool_call_id=call_id,
            tool_call_name=call.tool_name,
            parent_message_id=self._message if parent is None else None,
            subagent_run_id=parent,
        )
        yield ToolCallArgsEvent(tool_call_id=call_id, delta=_text(call.args), subagent_run_id=parent)
        yield ToolCallEndEvent(tool_call_id=call_id, subagent_run_id=parent)

    def _result(self, result: ToolCallResult) -> Iterator[BaseEvent]:
        call_id = result.tool_call_id
        if self._working.get(call_id):
            yield from self._speaker(call_id).close()
            yield self._stopped_work(call_id, failed=result.is_error)
        if (parent := result.parent_tool_call_id) is not None:
            yield from self._heard_of(parent)
        yield ToolCallResultEvent(
            message_id=f"{call_id}:result",
            tool_call_id=call_id,
            content=result.result if isinstance(result.result, str) else _text(result.result),
            role="tool",
            metadata={OURS: {"isError": True}} if result.is_error else None,
            subagent_run_id=parent,
        )

    def _end_step(self, step: Step) -> Iterator[BaseEvent]:
        yield from self._speaker(None).close()
        yield from self._heard_of(None)
        budget = step.step_budget
        yield from self._finish_step(None if budget is None else {OURS: {"stepBudget": budget}})
        self._steps, self._message = step.step_index, None

    def _finish_step(self, metadata: dict[str, Any] | None = None) -> Iterator[BaseEvent]:
        if self._step is not None:
            yield StepFinishedEvent(step_name=self._step, metadata=metadata)
        self._step = None

    def _stopped_work(
        self, subagent: str, *, failed: bool, suspended: list[Interrupt] | None = None
    ) -> BaseEvent:
        self._working[subagent] = False
        if failed:
            return SubagentErrorEvent(subagent_run_id=subagent, message="The subagent did not finish.")
        if suspended is None:
            return SubagentFinishedEvent(subagent_run_id=subagent)
        own = [interrupt.id for interrupt in suspended if interrupt.subagent_run_id == subagent]
        outcome = SubagentFinishedSuspendedOutcome(type="suspended", interrupt_ids=own)
        return SubagentFinishedEvent(subagent_run_id=subagent, outcome=outcome)

    def _close(
        self, *, failed: bool = False, suspended: list[Interrupt] | None = None
    ) -> Iterator[BaseEvent]:
        """End everything that is open."""
        for speaker in self._speakers.values():
            yield from speaker.close()
        for subagent in [subagent for subagent, works in self._working.items() if works]:
            yield self._stopped_work(subagent, failed=failed, suspended=suspended)
        yield from self._finish_step()

    def _end(self, usage: list[TokenUsage] | None, reason: str) -> BaseEvent:
        if self._error is None:
            outcome = RunFinishedSuccessOutcome(type="success")
            return self._finished(outcome=outcome, usage=usage, result=_result(self._final))
        if self._error == "aborted":
            # Told to stop is not failed: the protocol has an outcome of its own for it.
            return self._finished(outcome=RunFinishedCancelledOutcome(type="cancelled"), usage=usage)
        return RunErrorEvent(
            message=SENTENCES[self._error],
            code=self._error,
            usage=usage,
            metadata={OURS: {"finishReason": reason}},
        )

    def _subagent_of(self, request: PermissionRequest) -> str | None:
        call = self._calls.get(request.tool_call_id)
        return None if call is None else call.parent

    def _finished(self, **fields: Any) -> RunFinishedEvent:
        return RunFinishedEvent(thread_id=self._thread_id, run_id=self._run_id, **fields)


def _agent_name(call: ToolCallStart) -> str:
    """What the subagent a call begins is called, if it begins one."""
    named = call.args.get("subagent_type") if isinstance(call.args, dict) else None
    return named if isinstance(named, str) else call.tool_name


def _text(value: JsonValue) -> str:
    return to_json(value, inf_nan_mode="null").decode()


def _usage(usage: FinalUsage) -> list[TokenUsage] | None:
    """One entry without a label: fallbacks and subagents may have asked other models.

    None where nothing was counted: a zero would say that nothing was used.
    """
    if usage == FinalUsage():
        return None
    tokens = TokenUsage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
    )
    return [tokens]


def _result(final: AssistantFinal | None) -> dict[str, Any] | None:
    if final is None:
        return None
    structured = {} if final.structured_output is None else {"structuredOutput": final.structured_output}
    return {"content": final.content, **structured}
