"""ScriptedExecutor: plays a script instead of calling a model."""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, assert_never

from app.events import (
    AssistantFinal,
    MeterReport,
    Step,
    TextDelta,
    ToolCallResult,
    ToolCallStart,
    UsageReport,
    UserMessageDelivered,
)
from app.executors import port
from app.executors.deadline import RunDeadline
from app.ids import MessageId
from app.platform.background import first_of
from app.requests.messages import SentMessage
from app.requests.run_request import GraphRunRequest
from app.tools.policy import ToolPolicy
from app.tools.runner import ToolRunner
from app.usage.records import Basis, Meters, TokenUsage, UsageFact
from runtally.tools.tool import ToolContext


class WaitFor(NamedTuple):
    """Wait for an event; `reached` is set before."""

    until: asyncio.Event
    reached: asyncio.Event | None = None


class WriteMessage(NamedTuple):
    """A message of the model, streamed word by word."""

    text: str
    usage: TokenUsage = TokenUsage(input_tokens=10, output_tokens=20)
    before_end: WaitFor | None = None
    """Wait after the text and before the end of the message."""


class CallTool(NamedTuple):
    """A message of the model that calls one of the run's tools, with its approval if it needs one."""

    tool_id: str
    args: dict[str, Any]
    usage: TokenUsage = TokenUsage(input_tokens=10, output_tokens=20)


class CallClientTool(NamedTuple):
    """A message of the model that calls tools of the client, by their own names, with these arguments."""

    calls: tuple[tuple[str, dict[str, Any]], ...]
    usage: TokenUsage = TokenUsage(input_tokens=10, output_tokens=20)


class TakeMessage(NamedTuple):
    """Wait for the next message of a client."""


class Fail(NamedTuple):
    """End the run without an answer."""

    outcome: port.RunOutcome


Action: TypeAlias = WriteMessage | CallTool | CallClientTool | TakeMessage | WaitFor | Fail
Script: TypeAlias = Callable[[GraphRunRequest], Sequence[Action]]
"""The actions of a run; its last `WriteMessage` is the answer."""


class ScriptedExecutor:
    """Implements `GraphExecutor`; obeys stop, timeout, messages and approvals like any other executor."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def run(self, request: GraphRunRequest, context: port.RunContext) -> None:
        """See the port."""
        play = _Play(context)
        deadline = RunDeadline(context.control, context.plan.timeout)
        with context.control.inbox.forwarding_to(play.messages.put_nowait):
            first = await first_of(play.run(self._script(request)), _wait_for_stop(deadline, context))
        count = play.message_count
        report = MeterReport(Meters(sdk=count, gateway=count, drift=0), tool_failures=play.tool_failures)
        await context.events.publish(report)
        outcome = deadline.outcome if first is None or first.index > 0 else play.outcome
        if outcome is not None:
            raise port.ExecutionFailed(*outcome)
        await context.events.publish(AssistantFinal(content=play.text))

    async def preview(self, request: GraphRunRequest, plan: port.RunPlan) -> port.Preview:
        """See the port."""
        prompt = [{"type": "text", "text": request.messages[-1].text}]
        actions = [type(action).__name__ for action in self._script(request)]
        return port.Preview(plan.spec.system_prompt, prompt, {"actions": actions})


async def _wait_for_stop(deadline: RunDeadline, context: port.RunContext) -> None:
    await deadline.next_stop()
    # A script has no turns: stopping the turn stops the run.
    deadline.stop(port.ABORTED)
    await context.control.acknowledge()


async def _wait(wait: WaitFor) -> None:
    if wait.reached is not None:
        wait.reached.set()
    await wait.until.wait()


@dataclass(slots=True)
class _Play:
    """One run of a script."""

    context: port.RunContext
    messages: asyncio.Queue[SentMessage] = field(default_factory=asyncio.Queue)
    text: str = ""
    """The last message."""
    message_count: int = 0
    tool_failures: int = 0
    outcome: port.RunOutcome | None = None
    _tokens: int = 0

    async def run(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, WriteMessage | CallTool | CallClientTool):
                self.outcome = self._exhausted_limit()
            elif isinstance(action, Fail):
                self.outcome = action.outcome
            if self.outcome is not None:
                return
            await self._perform(action)

    async def _perform(self, action: Action) -> None:
        match action:
            case WriteMessage():
                await self._write_message(action)
            case CallTool():
                await self._call(action)
            case CallClientTool():
                await self._call_client(action)
            case TakeMessage():
                sent = await self.messages.get()
                taken = UserMessageDelivered(message_id=sent.message_id, content=sent.message.text)
                await self.context.events.publish(taken)
            case WaitFor():
                await _wait(action)
            case Fail():
                pass
            case _:
                assert_never(action)

    def _exhausted_limit(self) -> port.RunOutcome | None:
        limits, spent = self.context.plan.limits, self.context.plan.spent
        if limits.max_turns is not None and spent.turns + self.message_count >= limits.max_turns:
            return port.MAX_TURNS
        if (
            limits.max_total_tokens is not None
            and spent.total_tokens + self._tokens >= limits.max_total_tokens
        ):
            return port.BUDGET
        return None

    async def _write_message(self, message: WriteMessage) -> None:
        plan, events = self.context.plan, self.context.events
        message_id = self._next_message(message.usage)
        self.text = message.text
        basis: Basis = "partial"
        try:
            for word in re.findall(r"\S*\s*", message.text)[:-1]:
                await events.publish(TextDelta(message_id=message_id, delta=word))
            if message.before_end is not None:
                await _wait(message.before_end)
            basis = "final"
        finally:
            # Also if the run is stopped here: what a provider has answered is billed.
            await self._report_usage(message_id, message.usage, basis)
        await events.publish(Step(step_index=self.message_count, step_budget=plan.limits.max_turns))

    async def _call(self, call: CallTool) -> None:
        plan, events = self.context.plan, self.context.events
        message_id = self._next_message(call.usage)
        call_id = f"call_{self.message_count}"
        # First, because an approval request names a call that readers must have seen.
        await events.publish(ToolCallStart(tool_call_id=call_id, tool_name=call.tool_id, args=call.args))
        await self._report_usage(message_id, call.usage, "final")
        tools = {tool.id: tool for tool in plan.tools}
        policy = ToolPolicy(frozenset(tools), review=self.context.control.approvals.review)
        tool_context = ToolContext(run=plan.run, tool_call_id=call_id, request_id=plan.request_id)
        result = await ToolRunner(tools, policy).run(call.tool_id, call.args, tool_context)
        self.tool_failures += result.is_error
        await events.publish(
            ToolCallResult(tool_call_id=call_id, result=result.visible, is_error=result.is_error)
        )

    async def _call_client(self, action: CallClientTool) -> None:
        plan, events = self.context.plan, self.context.events
        message_id = self._next_message(action.usage)
        calls = {f"call_{self.message_count}_{index}": call for index, call in enumerate(action.calls)}
        for call_id, (name, args) in calls.items():
            await events.publish(
                ToolCallStart(tool_call_id=call_id, tool_name=name, args=args, is_client_tool=True)
            )
        await self._report_usage(message_id, action.usage, "final")
        await events.publish(Step(step_index=self.message_count, step_budget=plan.limits.max_turns))
        client_calls = self.context.control.client_calls
        answers = await asyncio.gather(
            *(client_calls.call(name, args, call_id=call_id) for call_id, (name, args) in calls.items())
        )
        for call_id, answer in zip(calls, answers, strict=True):
            self.tool_failures += answer.is_error
            await events.publish(
                ToolCallResult(tool_call_id=call_id, result=answer.visible, is_error=answer.is_error)
            )

    def _next_message(self, usage: TokenUsage) -> MessageId:
        self.message_count += 1
        self._tokens += usage.total_tokens
        return MessageId(f"msg_{self.message_count}")

    async def _report_usage(self, message_id: MessageId, usage: TokenUsage, basis: Basis) -> None:
        plan = self.context.plan
        fact = UsageFact(
            run=plan.run,
            attempt=plan.attempt,
            message_id=message_id,
            attribution=plan.attribution,
            model=plan.model,
            usage=usage,
            executor_type="messages_api",
            basis=basis,
        )
        await self.context.events.publish(UsageReport(fact))
