"""RunTrace: the spans of one attempt of a run, from its events and from its calls of the model."""

import secrets
import time
from collections import deque
from dataclasses import dataclass, field
from functools import partial

import structlog
from opentelemetry.trace import SpanContext
from opentelemetry.trace.span import TraceFlags

from app import events
from app.platform.telemetry.attributes import PROVIDER, Attributes, clean, present
from app.platform.telemetry.backends import content_attributes, kind_attributes
from app.platform.telemetry.content import bounded_json
from app.platform.telemetry.metrics import GenAiMetrics
from app.platform.telemetry.model_call import ModelCall
from app.platform.telemetry.records import PricedAnswer, RunResult, SpanOptions, TracedRun
from app.platform.telemetry.run_span import common_attributes, run_span
from app.platform.telemetry.spans import FinishedSpan, SpanWriter

log = structlog.get_logger(__name__)

SUBAGENT_TOOLS = frozenset({"Agent", "Task"})
"""Tools whose call starts a subagent."""

INTERRUPTED = "interrupted"
"""The run ended before the tool's result."""

_MAX_HELD = 1000
"""Spans of subagents that wait for their parent; more are children of the run."""


@dataclass(slots=True)
class _ToolCall:
    """A tool call that has no result yet."""

    name: str
    context: SpanContext
    started_ns: int
    parent: str | None
    """The call whose subagent makes it."""
    attributes: Attributes
    agent: SpanContext | None = None
    """The span of the subagent that it starts."""
    agent_name: str = ""
    held: list[tuple[FinishedSpan, SpanContext]] = field(default_factory=list)
    """Spans below this one, with their parents; exported with it, so that no parent is missing."""


@dataclass(slots=True)
class _Approval:
    tool_call_id: str
    tool: str
    started_ns: int


class RunTrace:
    """One attempt: `observe` gets every event, `start_call` makes the span of a call of the model."""

    def __init__(
        self,
        run: TracedRun,
        *,
        spans: SpanWriter | None,
        metrics: GenAiMetrics | None,
        options: SpanOptions,
        waited: bool,
    ) -> None:
        """`waited`: whether the run was queued before this attempt."""
        self._run = run
        self._spans = spans
        self._metrics = metrics
        self._options = options
        self._waited = waited
        context = run.context
        sampled = spans is not None and spans.is_sampled(
            f"invoke_agent {run.graph_id}", trace_id=int(context.trace_id, 16), parent=context.parent
        )
        self._root = context.run_span(is_sampled=sampled)
        self._common = common_attributes(run, options)
        self._calls = self._tool_calls = self._held = 0
        self._tools: dict[str, _ToolCall] = {}
        self._approvals: dict[str, _Approval] = {}
        self._subagents: dict[str, SpanContext] = {}
        """Of all calls that have started one."""
        self._callers: dict[str, str] = {}
        """By the CLI's id of a subagent: the tool call that started it."""
        self._agents: dict[str, str] = {}
        """By message: the CLI's id of the subagent that called the model."""
        self._unassigned: deque[tuple[str, FinishedSpan]] = deque()

    def start_call(self, requested_model: str, *, agent: str) -> ModelCall:
        """A request to the provider begins; `agent` is the CLI's id of a subagent, empty for the main one."""
        self._calls += 1
        return ModelCall(
            self._new_context(),
            requested_model,
            common=self._common,
            options=self._options,
            metrics=self._metrics,
            on_end=partial(self._end_call, agent),
        )

    def observe(self, event: events.ClientEvent | events.AiEvent) -> None:
        """An event of the run; other kinds have no spans. A failure is logged, and does not end the run."""
        try:
            self._observe(event)
        except Exception:
            log.warning("trace.event_failed", type=type(event).__name__, exc_info=True)

    def _observe(self, event: events.ClientEvent | events.AiEvent) -> None:
        match event:
            case events.RunStarted() if self._waited:
                self._end_waiting()
            case events.ToolCallStart():
                self._start_tool(event)
            case events.ToolCallResult():
                self._end_tool(event.tool_call_id, event)
            case events.PermissionRequest():
                approval = _Approval(event.tool_call_id, clean(event.tool_name), time.time_ns())
                self._approvals[event.request_id] = approval
            case events.PermissionResolved():
                self._end_approval(event)
            case events.UsageReport(fact=fact) if fact.parent_tool_call_id is not None:
                self._assign(fact.message_id, fact.parent_tool_call_id)
            case _:
                pass

    def close(self) -> None:
        """The attempt is over: export what waits for a result that does not come."""
        for tool_call_id in reversed(list(self._tools)):
            self._end_tool(tool_call_id, None)
        while self._unassigned:
            _, span = self._unassigned.popleft()
            self._write(span, self._root)

    def end(self, result: RunResult) -> None:
        """This process has stored the end of the run: export the run's own span."""
        self.close()
        run_span(
            self._run,
            result,
            spans=self._spans,
            metrics=self._metrics,
            options=self._options,
            calls=self._calls,
            tool_calls=self._tool_calls,
        )

    def _end_call(self, agent: str, span: FinishedSpan, answer: PricedAnswer | None) -> None:
        if agent and answer is not None:
            self._agents[answer.fact.message_id] = agent
        if not agent:
            self._write(span, self._root)
        elif agent in self._callers:
            self._export_of_subagent(self._callers[agent], span)
        elif self._held < _MAX_HELD:
            self._held += 1
            self._unassigned.append((agent, span))
        else:
            self._write(span, self._root)

    def _assign(self, message_id: str, tool_call_id: str) -> None:
        """A message is known to be of the subagent that this call has started."""
        agent = self._agents.pop(message_id, None)
        if agent is None or agent in self._callers:
            return
        self._callers[agent] = tool_call_id
        for _ in range(len(self._unassigned)):
            name, span = self._unassigned.popleft()
            if name == agent:
                self._held -= 1
                self._export_of_subagent(tool_call_id, span)
            else:
                self._unassigned.append((name, span))

    def _start_tool(self, event: events.ToolCallStart) -> None:
        self._tool_calls += 1
        name = clean(event.tool_name)
        attributes = present(
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": name,
                "gen_ai.tool.call.id": clean(event.tool_call_id),
                "gen_ai.tool.type": "function",
            }
        )
        if self._options.captures_content:
            attributes["gen_ai.tool.call.arguments"] = bounded_json(event.args)
        call = _ToolCall(name, self._new_context(), time.time_ns(), event.parent_tool_call_id, attributes)
        if name in SUBAGENT_TOOLS:
            args = event.args if isinstance(event.args, dict) else {}
            call.agent_name = clean(str(args.get("subagent_type") or name))
            call.agent = self._subagents[event.tool_call_id] = self._new_context()
        self._tools[event.tool_call_id] = call

    def _end_tool(self, tool_call_id: str, result: events.ToolCallResult | None) -> None:
        if (call := self._tools.pop(tool_call_id, None)) is None:
            return
        error = INTERRUPTED if result is None else "tool_error" if result.is_error else None
        if result is not None and self._options.captures_content:
            call.attributes["gen_ai.tool.call.result"] = bounded_json(result.result)
        name = f"execute_tool {call.name}"
        span = self._finished(name, call.context, call.started_ns, call.attributes, error)
        span.attributes |= kind_attributes(self._options.backends, "TOOL")
        span.attributes |= content_attributes(self._options.backends, call.attributes)
        if self._metrics is not None:
            self._metrics.record_tool(span.seconds, tool=call.name, error_type=error)
        self._export_of_subagent(call.parent, span)
        if call.agent is not None:
            self._export(self._subagent_span(call, call.agent, error), call.context, after=call.parent)
        for held, parent in call.held:
            self._export(held, parent, after=call.parent)

    def _subagent_span(self, call: _ToolCall, agent: SpanContext, error: str | None) -> FinishedSpan:
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": PROVIDER,
            "gen_ai.agent.name": call.agent_name,
            **kind_attributes(self._options.backends, "AGENT"),
        }
        return self._finished(f"invoke_agent {call.agent_name}", agent, call.started_ns, attributes, error)

    def _end_approval(self, event: events.PermissionResolved) -> None:
        if (approval := self._approvals.pop(event.request_id, None)) is None:
            return
        call = self._tools.get(approval.tool_call_id)
        attributes = {
            "gen_ai.tool.name": approval.tool,
            "gen_ai.tool.call.id": clean(approval.tool_call_id),
            "runtally.approval.decision": event.decision,
            "runtally.approval.reason": event.reason,
            **kind_attributes(self._options.backends, "CHAIN"),
        }
        name = f"await_approval {approval.tool}"
        span = self._finished(name, self._new_context(), approval.started_ns, attributes, None)
        self._export(span, self._root if call is None else call.context, after=approval.tool_call_id)

    def _end_waiting(self) -> None:
        started_ns = int(self._run.accepted_at.timestamp() * 1e9)
        attributes = kind_attributes(self._options.backends, "CHAIN")
        span = self._finished("queue", self._new_context(), started_ns, attributes, None)
        self._write(span, self._root)

    def _finished(
        self, name: str, context: SpanContext, started_ns: int, attributes: Attributes, error: str | None
    ) -> FinishedSpan:
        known = {**self._common, **attributes, **present({"error.type": error})}
        return FinishedSpan(name, context, started_ns, time.time_ns(), known, is_error=error is not None)

    def _new_context(self) -> SpanContext:
        return SpanContext(
            self._root.trace_id,
            secrets.randbits(64),
            is_remote=False,
            trace_flags=TraceFlags(self._root.trace_flags),
            trace_state=self._root.trace_state,
        )

    def _export_of_subagent(self, tool_call_id: str | None, span: FinishedSpan) -> None:
        """Export a span below the subagent that this call has started; below the run for the main agent."""
        parent = self._root if tool_call_id is None else self._subagents.get(tool_call_id, self._root)
        self._export(span, parent, after=tool_call_id)

    def _export(self, span: FinishedSpan, parent: SpanContext, *, after: str | None) -> None:
        """Export a span, together with that of a tool call if it has not ended."""
        call = None if after is None else self._tools.get(after)
        if call is None:
            self._write(span, parent)
        else:
            call.held.append((span, parent))

    def _write(self, span: FinishedSpan, parent: SpanContext) -> None:
        if self._spans is not None:
            self._spans.write(span, parent=parent)
