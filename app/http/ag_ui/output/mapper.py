"""AgUiEventMapper: maps run events to AG-UI 1.0 events; closes what it opened, without I/O.

The rules on what must be open or closed are those of `verifyEvents` in @ag-ui/client.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

from ag_ui import core
from pydantic import JsonValue
from pydantic_core import to_json

from app import events
from app.http.ag_ui.interrupt import METADATA_KEY, InterruptId, PersonRequest, build_interrupt
from app.http.ag_ui.output.client_calls import BegunCall, ClientCalls
from app.http.ag_ui.output.message_builder import MessageBuilder
from app.http.ag_ui.output.run_end import run_result, token_usage
from app.runs.events.failures import failure_of
from app.streams.port import LogEntry

_Custom: TypeAlias = (
    events.Queued
    | events.Status
    | events.RunWarning
    | events.Interrupted
    | events.Citation
    | events.FilesChanged
    | events.BudgetReached
)


@dataclass(frozen=True, slots=True)
class _Call:
    """A tool call; its fields are needed if it starts a subagent."""

    name: str
    parent: str | None


class AgUiEventMapper:
    """Maps one run, or the part of it after an interrupt, to AG-UI events.

    Needs every entry in order. The caller emits RUN_STARTED and MESSAGES_SNAPSHOT.
    """

    def __init__(
        self,
        *,
        thread_id: str,
        run_id: str,
        our_run_id: str,
        answered: frozenset[str] = frozenset(),
        names_pending: bool = False,
    ) -> None:
        """`run_id` is the client's id of this AG-UI run, `our_run_id` the id of the run itself.

        See `ClientCalls` for `answered` and `names_pending`.
        """
        self._thread_id = thread_id
        self._run_id = run_id
        self._our_run_id = our_run_id
        self._builders: dict[str | None, MessageBuilder] = {}
        self._calls: dict[str, _Call] = {}
        self._subagents: dict[str, bool] = {}
        self._steps = 0
        self._step: str | None = None
        self._message: str | None = None
        self._writing: str | None = None
        self._final: events.AssistantFinal | None = None
        self._error: events.RunError | None = None
        self._position = 0
        self._pending: dict[str, PersonRequest] = {}
        self._client_calls = ClientCalls(answered, names_pending=names_pending)
        self._open_calls: set[str] = set()
        self.ended = False

    @property
    def needs_decision(self) -> bool:
        """Whether a tool call or a question waits for a person."""
        return bool(self._pending) and not self.ended

    @property
    def needs_results(self) -> bool:
        """Whether a call waits for the client to execute it."""
        return bool(self._client_calls.waiting) and not self.ended

    @property
    def has_open_calls(self) -> bool:
        """Whether calls of other tools have no result yet."""
        return bool(self._open_calls)

    @property
    def in_step(self) -> bool:
        """Whether a step is open: the model may still be writing further calls."""
        return self._step is not None

    @property
    def unfinished_text(self) -> str | None:
        """The id of the agent's message whose text is being written."""
        return self._writing

    def reset(self) -> None:
        """Start a new AG-UI run: nothing is open."""
        self._builders.clear()
        self._subagents.clear()
        self._pending.clear()
        self._step = self._message = None

    def map(self, entry: LogEntry) -> Iterator[core.BaseEvent]:
        """The AG-UI events of one entry; none after the AG-UI run has ended."""
        if not self.ended:
            self._position = entry.position
            yield from self._map(entry)

    def pause(self) -> Iterator[core.BaseEvent]:
        """End the AG-UI run: with an interrupt for each pending request, or for the client's own calls."""
        if self._pending:
            yield from self._interrupt()
        else:
            yield from self._close_all()
            yield self._run_finished(outcome=self._client_calls.outcome())
        self.ended = True

    def _interrupt(self) -> Iterator[core.BaseEvent]:
        interrupts = [
            build_interrupt(
                InterruptId(self._our_run_id, self._position, request.request_id),
                request,
                subagent=self._subagent_of(request),
            )
            for request in self._pending.values()
        ]
        outcome = core.RunFinishedInterruptOutcome(type="interrupt", interrupts=interrupts)
        yield from self._close_all(suspended=interrupts)
        yield self._run_finished(outcome=outcome)

    def _map(self, entry: LogEntry) -> Iterator[core.BaseEvent]:
        match entry.event:
            case events.TextDelta() | events.ThinkingDelta() as delta:
                yield from self._delta(delta, entry.position)
            case events.ToolCallStart() | events.ToolCallResult() | events.ClientToolCall() as event:
                yield from self._tool(event)
            case events.Step() as step:
                yield from self._end_step(step)
            case events.UserMessageDelivered() as message:
                yield from self._user_message(message)
            case events.PermissionRequest() | events.QuestionAsked() as request:
                self._pending[request.request_id] = request
            case events.AssistantFinal() | events.RunError() | events.Done() as event:
                yield from self._outcome(event)
            case event:
                yield from self._custom(event)

    def _delta(
        self, delta: events.TextDelta | events.ThinkingDelta, position: int
    ) -> Iterator[core.BaseEvent]:
        subagent = delta.parent_tool_call_id
        yield from self._ensure_started(subagent)
        builder = self._builder(subagent)
        if isinstance(delta, events.ThinkingDelta):
            yield from builder.add_reasoning(delta.message_id, delta.delta, position=position)
        else:
            if subagent is None:
                self._message = self._writing = delta.message_id
            yield from builder.add_text(delta.message_id, delta.delta)

    def _user_message(self, message: events.UserMessageDelivered) -> Iterator[core.BaseEvent]:
        yield from self._builder(None).close()
        yield core.TextMessageStartEvent(message_id=message.message_id, role="user")
        yield core.TextMessageContentEvent(message_id=message.message_id, delta=message.content)
        yield core.TextMessageEndEvent(message_id=message.message_id)

    def _custom(
        self,
        event: _Custom
        | events.PermissionResolved
        | events.QuestionResolved
        | events.RunStarted
        | events.MessageDiscarded,
    ) -> Iterator[core.BaseEvent]:
        """Events without an AG-UI counterpart: CUSTOM, with the name and fields of the native wire."""
        if isinstance(event, events.RunStarted):
            # A later attempt starts from the beginning: whatever the earlier one had open was cut off.
            self._pending.clear()
            self._client_calls.forget()
            self._open_calls.clear()
            yield from self._close_all(failed=True)
            self._message = self._writing = None
        elif isinstance(event, events.PermissionResolved | events.QuestionResolved):
            self._pending.pop(event.request_id, None)
        elif isinstance(event, events.MessageDiscarded):
            yield from self._builder(event.parent_tool_call_id).close()
        elif not isinstance(event, _Custom):
            assert_never(event)
        value = event.model_dump(mode="json", by_alias=True, exclude={"type", "parent_tool_call_id"})
        yield core.CustomEvent(name=event.type, value=value, subagent_run_id=event.parent_tool_call_id)

    def _outcome(
        self, event: events.AssistantFinal | events.RunError | events.Done
    ) -> Iterator[core.BaseEvent]:
        match event:
            case events.AssistantFinal():
                self._final = event
            case events.RunError():
                self._error = event
            case events.Done():
                yield from self._close_all(failed=self._error is not None)
                yield self._run_end(event)
                self.ended = True

    def _builder(self, subagent: str | None) -> MessageBuilder:
        return self._builders.setdefault(subagent, MessageBuilder(subagent))

    def _ensure_started(self, subagent: str | None) -> Iterator[core.BaseEvent]:
        """Start the agent's step, or the subagent, unless it has started."""
        if subagent is None:
            if self._step is None:
                self._step = f"step {self._steps + 1}"
                yield core.StepStartedEvent(step_name=self._step)
        elif subagent not in self._subagents:
            self._subagents[subagent] = True
            call = self._calls.get(subagent, _Call("agent", None))
            if call.parent is not None:
                yield from self._ensure_started(call.parent)
            yield core.SubagentStartedEvent(
                subagent_run_id=subagent,
                name=call.name,
                parent_tool_call_id=subagent,
                parent_subagent_run_id=call.parent,
            )

    def _tool(
        self, event: events.ToolCallStart | events.ToolCallResult | events.ClientToolCall
    ) -> Iterator[core.BaseEvent]:
        if event.type == "tool_call_start" and event.parent_tool_call_id is None:
            self._writing = None
        match event:
            case events.ToolCallStart(is_client_tool=True):
                # The client gets it once its arguments are valid, or else with its error.
                self._client_calls.start(event, self._message)
            case events.ToolCallStart():
                self._open_calls.add(event.tool_call_id)
                yield from self._tool_call(event, message=self._message)
            case events.ClientToolCall():
                yield from self._client_tool_call(self._client_calls.wait(event.tool_call_id))
            case events.ToolCallResult():
                self._open_calls.discard(event.tool_call_id)
                ended = self._client_calls.end(event.tool_call_id)
                yield from self._client_tool_call(ended.unsent)
                if not ended.is_known:
                    yield from self._tool_result(event)

    def _client_tool_call(self, begun: BegunCall | None) -> Iterator[core.BaseEvent]:
        if begun is not None:
            yield from self._tool_call(begun.event, message=begun.message)

    def _tool_call(self, call: events.ToolCallStart, *, message: str | None) -> Iterator[core.BaseEvent]:
        call_id, parent = call.tool_call_id, call.parent_tool_call_id
        self._calls[call_id] = _Call(_agent_name(call), parent)
        if not call.is_client_tool:
            # A call of the client is sent after its step, with all others of the message.
            yield from self._ensure_started(parent)
        yield from self._builder(parent).close()
        yield core.ToolCallStartEvent(
            tool_call_id=call_id,
            tool_call_name=call.tool_name,
            parent_message_id=message if parent is None else None,
            subagent_run_id=parent,
        )
        yield core.ToolCallArgsEvent(tool_call_id=call_id, delta=json_text(call.args), subagent_run_id=parent)
        yield core.ToolCallEndEvent(tool_call_id=call_id, subagent_run_id=parent)

    def _tool_result(self, result: events.ToolCallResult) -> Iterator[core.BaseEvent]:
        call_id = result.tool_call_id
        if self._subagents.get(call_id):
            yield from self._builder(call_id).close()
            yield self._end_subagent(call_id, failed=result.is_error)
        if (parent := result.parent_tool_call_id) is not None:
            yield from self._ensure_started(parent)
        yield core.ToolCallResultEvent(
            message_id=tool_result_id(call_id),
            tool_call_id=call_id,
            content=result.result if isinstance(result.result, str) else json_text(result.result),
            role="tool",
            metadata={METADATA_KEY: {"isError": True}} if result.is_error else None,
            subagent_run_id=parent,
        )

    def _end_step(self, step: events.Step) -> Iterator[core.BaseEvent]:
        yield from self._builder(None).close()
        yield from self._ensure_started(None)
        budget = step.step_budget
        yield from self._close_step(None if budget is None else {METADATA_KEY: {"stepBudget": budget}})
        self._steps, self._message, self._writing = step.step_index, None, None

    def _close_step(self, metadata: dict[str, Any] | None = None) -> Iterator[core.BaseEvent]:
        if self._step is not None:
            yield core.StepFinishedEvent(step_name=self._step, metadata=metadata)
        self._step = None

    def _end_subagent(
        self, subagent: str, *, failed: bool, suspended: list[core.Interrupt] | None = None
    ) -> core.BaseEvent:
        self._subagents[subagent] = False
        if failed:
            return core.SubagentErrorEvent(subagent_run_id=subagent, message="The subagent did not finish.")
        if suspended is None:
            return core.SubagentFinishedEvent(subagent_run_id=subagent)
        own = [interrupt.id for interrupt in suspended if interrupt.subagent_run_id == subagent]
        outcome = core.SubagentFinishedSuspendedOutcome(type="suspended", interrupt_ids=own)
        return core.SubagentFinishedEvent(subagent_run_id=subagent, outcome=outcome)

    def _close_all(
        self, *, failed: bool = False, suspended: list[core.Interrupt] | None = None
    ) -> Iterator[core.BaseEvent]:
        """Close open messages, subagents and the step."""
        for builder in self._builders.values():
            yield from builder.close()
        for subagent in [subagent for subagent, is_open in self._subagents.items() if is_open]:
            yield self._end_subagent(subagent, failed=failed, suspended=suspended)
        yield from self._close_step()

    def _run_end(self, done: events.Done) -> core.BaseEvent:
        usage = token_usage(done.usage)
        if self._error is None:
            outcome = core.RunFinishedSuccessOutcome(type="success")
            return self._run_finished(outcome=outcome, usage=usage, result=run_result(self._final, done))
        if self._error.error == "aborted":
            # AG-UI has an outcome of its own for cancelled runs.
            return self._run_finished(outcome=core.RunFinishedCancelledOutcome(type="cancelled"), usage=usage)
        return core.RunErrorEvent(
            message=failure_of(self._error).detail,
            code=self._error.error,
            usage=usage,
            metadata={METADATA_KEY: {"finishReason": done.finish_reason}},
        )

    def _subagent_of(self, request: PersonRequest) -> str | None:
        call = self._calls.get(request.tool_call_id or "")
        return None if call is None else call.parent

    def _run_finished(self, **fields: Any) -> core.RunFinishedEvent:
        return core.RunFinishedEvent(thread_id=self._thread_id, run_id=self._run_id, **fields)


def _agent_name(call: events.ToolCallStart) -> str:
    """The name of the subagent that this call starts, if it starts one."""
    named = call.args.get("subagent_type") if isinstance(call.args, dict) else None
    return named if isinstance(named, str) else call.tool_name


def tool_result_id(call_id: str) -> str:
    return f"{call_id}:result"


def json_text(value: JsonValue) -> str:
    """Arguments or a result as AG-UI transfers them."""
    return to_json(value, inf_nan_mode="null").decode()
