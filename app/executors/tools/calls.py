"""ToolCalls: executes the tool calls of a run: policy, approvals, limits, results."""

import asyncio
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from app.events import AiEvent, RunWarning, Status, Step, ToolCallResult, ToolCallStart
from app.executors.approvals import ApprovableTool, RunDenied
from app.executors.control import RunControl
from app.executors.port import EventSink, RunContext, RunPlan
from app.executors.tools.questions import ASK_USER_QUESTION
from app.gateway.channel import Channel
from app.ids import AccountId, RunId, RunKey
from app.platform.clock.lease import Lease
from app.platform.logs.secrets import unlogged
from app.requests.client_tools import is_client_tool, shown_name
from app.tools.extensions.loading import Extensions
from app.tools.policy import ToolCallDenied, ToolPolicy
from app.tools.runner import ToolRunner
from runtally.tools.hooks import ToolCall
from runtally.tools.result import ToolResult
from runtally.tools.tool import Tool, ToolContext

_NO_RUN = "No tool is called before there is a run."
_NO_EXTENSIONS = Extensions()
_NOT_HELD = "This run cannot go on here; no tool is called any more."
_LEASE_WAIT_S = 20.0
_STOP_S = 2.0
"""How long a denied call that ends its run waits for that end."""
_MESSAGE_END_S = 2.0
"""How long a call of a client tool waits for the end of its message, which one that broke off has not."""
_PROGRESS_S = 0.25
"""The shortest time between two events about the progress of one call."""
_DENIAL_REASONS = {
    "deadline": "This run's time is up; no tool is called any more.",
    "budget": "This run's budget is used up; no tool is called any more.",
}


class ToolCalls:
    """One run's tools and their results.

    An agent that is started ahead of time gets them before its run is known: `plan` is then that of a
    run with the same graph and tools, and no tool can be called before `attach_run`.
    """

    def __init__(self, plan: RunPlan) -> None:
        self.plan = plan
        self._control: RunControl | None = None
        self._lease: Lease | None = None
        self._channel: Channel | None = None
        self._events: EventSink | None = None
        self._extensions = _NO_EXTENSIONS
        self.tools: dict[str, Tool] = {tool.id: tool for tool in plan.tools}
        policy = ToolPolicy(frozenset(self.tools), self.denial_reason, self._review)
        self._runner = ToolRunner(self.tools, policy)
        self._published: dict[str, asyncio.Event] = {}
        self._message_end = asyncio.Event()
        """Set when the agent's current message is complete."""
        self._results: dict[str, ToolResult] = {}
        """Results by tool-call id, from the end of the call until `take_result`."""
        self._parents: dict[str, str] = {}
        """The calls that started subagents, by the calls of these."""
        self._reviewed: dict[str, ToolCall] = {}
        """Calls that hooks may have denied, by id, until hooks have got the result."""

    def attach_run(self, context: RunContext, channel: Channel) -> None:
        """Execute calls for this run from now on."""
        self.plan, self._channel, self._events = context.plan, channel, context.events
        self._control, self._lease = context.control, context.lease
        self._extensions = context.extensions

    def log_context(self) -> AbstractContextManager[object]:
        """Log lines of the body name the run, if there is one."""
        return nullcontext() if self._channel is None else self.plan.log_context()

    @property
    def longest_call_s(self) -> float:
        """The longest a call may take, including the time to wait for a person's approval, and progress."""
        tool_s = max((tool.longest_call_s for tool in self.tools.values()), default=0)
        return tool_s + (self.plan.spec.approval_timeout_s if self.plan.spec.asks else 0)

    def on_published(self, event: AiEvent) -> None:
        """An event of this run was published: calls that clients can see now may be reviewed."""
        if isinstance(event, ToolCallStart):
            if self._message_end.is_set() and event.parent_tool_call_id is None:
                self._message_end = asyncio.Event()
            if event.parent_tool_call_id is not None:
                self._parents[event.tool_call_id] = event.parent_tool_call_id
            self._published_event(event.tool_call_id).set()
        elif isinstance(event, ToolCallResult):
            self._published.pop(event.tool_call_id, None)
        elif isinstance(event, Step):
            self._message_end.set()

    @property
    def has_results(self) -> bool:
        """Whether there are results that were not taken."""
        return bool(self._results)

    @property
    def is_complete(self) -> bool:
        return self._message_end.is_set()

    def resume(self, call_ids: Iterable[str]) -> None:
        """Clients have got these calls from an earlier attempt, which has not executed them."""
        for call_id in call_ids:
            self._published_event(call_id).set()
        self._message_end.set()

    def take_result(self, call_id: str) -> ToolResult | None:
        """The result of a call that has ended, once; None if the tool runner did not answer it."""
        self._published.pop(call_id, None)
        return self._results.pop(call_id, None)

    def open_calls(self) -> list[str]:
        """The ids of the calls that clients have seen and whose result was not taken."""
        return [call_id for call_id, published in self._published.items() if published.is_set()]

    def denial_reason(self) -> str | None:
        if self._channel is None:
            return _NO_RUN
        limit = self._channel.exhausted_limit
        return None if limit is None else _DENIAL_REASONS.get(limit, "This run is over.")

    async def run(self, tool_id: str, args: object, call_id: str) -> ToolResult:
        """Execute a call of one of our tools, and keep the result for `take_result`."""
        progress, context = _Progress(self._events), self._tool_context(call_id)
        credentials, control = self._extensions.credentials(context, tool_id), self._control
        context = replace(context, report_progress=progress.report, credential=credentials.get)
        if control is not None and control.parking.is_set():
            # The run's next attempt makes it: the agent that called is about to end.
            await asyncio.Event().wait()
        with nullcontext() if control is None else control.executing(call_id), unlogged(credentials.given):
            result = credentials.hidden_in(await self._runner.run(tool_id, args, context))
        self._results[call_id] = result
        if (tool := self.tools.get(tool_id)) is not None:
            await self.report_result(tool, args, call_id, result)
        return result

    async def review_builtin(self, tool: ApprovableTool, args: object, call_id: str) -> object:
        """The arguments to call one of the agent's own tools with; raises `ToolCallDenied`."""
        return await self._review(tool, args, self._tool_context(call_id))

    async def report_result(
        self, tool: ApprovableTool, args: object, call_id: str, result: ToolResult
    ) -> None:
        """Report the result of a call to the hooks; `args` are what the model wrote."""
        call = self._reviewed.pop(call_id, None) or self._hooked_call(tool, args, call_id)
        await self._extensions.hooks.after_tool(self._tool_context(call_id), call, result)

    async def _review(self, tool: ApprovableTool, args: object, context: ToolContext) -> object:
        # An approval request names the tool call, so clients must have got the call's event before.
        await self._published_event(context.tool_call_id).wait()
        if self._control is None or self._lease is None:
            raise ToolCallDenied(_NO_RUN)
        if is_client_tool(tool.id) or tool.id == ASK_USER_QUESTION:
            # The client itself lets its user decide. It gets the calls of a message together, once the
            # message is complete: a stream that ends with them loses nothing of it.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._message_end.wait(), _MESSAGE_END_S)
        try:
            reviewed = await self._control.approvals.review(tool, args, context)
        except RunDenied as denied:
            await self._end_run(self._control, tool, denied)
            raise
        await self._require_no_denial(tool, reviewed, context)
        # Another process may have taken the run over, and may call the same tool.
        run = RunKey(AccountId(context.run.account_id), RunId(context.run.run_id))
        if not await self._lease.wait_held(run, within_s=_LEASE_WAIT_S):
            raise ToolCallDenied(_NOT_HELD)
        return reviewed

    async def _end_run(self, control: RunControl, tool: ApprovableTool, denied: RunDenied) -> None:
        """Warn clients and stop the run; usually ends by a cancellation."""
        if self._events is not None:
            warning = RunWarning(code="run_stopped", message=str(denied), names=[shown_name(tool.id)])
            await self._events.publish(warning)
        control.stop.set()
        # The call is cancelled meanwhile: with its result the agent would call the model again.
        await asyncio.sleep(_STOP_S)

    async def _require_no_denial(self, tool: ApprovableTool, args: object, context: ToolContext) -> None:
        """Raise `ToolCallDenied` if a hook denies the call."""
        call = self._hooked_call(tool, args, context.tool_call_id)
        self._reviewed[call.tool_call_id] = call
        denial = await self._extensions.hooks.before_tool(self._tool_context(call.tool_call_id), call)
        if denial is not None:
            raise ToolCallDenied(denial)

    def _hooked_call(self, tool: ApprovableTool, args: object, call_id: str) -> ToolCall:
        return ToolCall(
            tool_call_id=call_id,
            tool_name=shown_name(tool.id),
            arguments=args if isinstance(args, dict) else {},
            effect=None if is_client_tool(tool.id) else tool.effect,
            parent_tool_call_id=self._parents.get(call_id),
        )

    def _published_event(self, call_id: str) -> asyncio.Event:
        return self._published.setdefault(call_id, asyncio.Event())

    def _tool_context(self, call_id: str) -> ToolContext:
        plan, channel = self.plan, self._channel
        return ToolContext(
            run=plan.run,
            attempt=plan.attempt,
            tool_call_id=call_id,
            request_id=plan.request_id,
            graph_id=plan.spec.id,
            conversation=None if plan.conversation is None else plan.conversation.state_key,
            deadline=None if channel is None else _moment(channel.limits.deadline),
            budget_left_usd=None if channel is None else channel.budget_left_usd,
        )


def _moment(deadline: float) -> datetime:
    """A time of the event loop."""
    return datetime.now(UTC) + timedelta(seconds=deadline - asyncio.get_running_loop().time())


class _Progress:
    """Publishes the progress of one call, a few times per second at most."""

    def __init__(self, events: EventSink | None) -> None:
        self._events = events
        self._next = 0.0
        self._label = ""

    async def report(self, label: str) -> None:
        now = asyncio.get_running_loop().time()
        if self._events is None or now < self._next or label == self._label:
            return
        self._next, self._label = now + _PROGRESS_S, label
        await self._events.publish(Status(phase="tool_use", label=label))
