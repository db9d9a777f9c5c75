"""ScriptedExecutor: plays a script instead of calling a model; for tests and for trying out clients."""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, assert_never

from app.background import first_of
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
from app.executors.deadline import RunDeadline
from app.executors.port import ABORTED, ExecutionFailed, Preview, RunContext, RunOutcome, RunPlan
from app.ids import MessageId
from app.requests import GraphRunRequest, SentMessage
from app.tools.policy import ToolPolicy
from app.tools.runner import ToolRunner
from app.tools.tool import ToolContext
from app.usage import Meters, TokenUsage, UsageFact


class WriteMessage(NamedTuple):
    """A message of the model, streamed word by word."""

    text: str
    usage: TokenUsage = TokenUsage(input_tokens=10, output_tokens=20)


class CallTool(NamedTuple):
    """A call of one of the run's tools, with its approval if it needs one."""

    tool_id: str
    args: dict[str, Any]


class TakeMessage(NamedTuple):
    """Wait for the next message of a client."""


class WaitFor(NamedTuple):
    """Wait for an event."""

    until: asyncio.Event


class Fail(NamedTuple):
    """End the run without an answer."""

    outcome: RunOutcome


Action: TypeAlias = WriteMessage | CallTool | TakeMessage | WaitFor | Fail
Script: TypeAlias = Callable[[GraphRunRequest], Sequence[Action]]
"""The actions of a run; its last `WriteMessage` is the answer."""


class ScriptedExecutor:
    """Implements `GraphExecutor`; obeys stop, timeout, messages and approvals like any other executor."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def run(self, request: GraphRunRequest, context: RunContext) -> None:
        """See the port."""
        play = _Play(context)
        deadline = RunDeadline(context.control, context.plan.timeout)
        async with context.control.inbox.forwarding_to(play.messages.put_nowait):
            first = await first_of(play.run(self._script(request)), _wait_for_stop(deadline, context))
        count = play.message_count
        report = MeterReport(Meters(sdk=count, gateway=count, drift=0), tool_failures=play.tool_failures)
        await context.events.publish(report)
        outcome = deadline.outcome if first is None or first.index > 0 else play.outcome
        if outcome is not None:
            raise ExecutionFailed(*outcome)
        await context.events.publish(AssistantFinal(content=play.text))

    def preview(self, request: GraphRunRequest, plan: RunPlan) -> Preview:
        """See the port."""
        prompt = [{"type": "text", "text": request.messages[-1].text}]
        actions = [type(action).__name__ for action in self._script(request)]
        return Preview(plan.spec.system_prompt, prompt, {"actions": actions})


async def _wait_for_stop(deadline: RunDeadline, context: RunContext) -> None:
    await deadline.next_stop()
    # A script has no turns: stopping the turn stops the run.
    deadline.stop(ABORTED)
    await context.control.acknowledge()


@dataclass(slots=True)
class _Play:
    """One run of a script."""

    context: RunContext
    messages: asyncio.Queue[SentMessage] = field(default_factory=asyncio.Queue)
    text: str = ""
    """The last message."""
    message_count: int = 0
    tool_failures: int = 0
    outcome: RunOutcome | None = None
    _calls: int = 0

    async def run(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case WriteMessage(text=text, usage=usage):
                    await self._write_message(text, usage)
                case CallTool(tool_id=tool_id, args=args):
                    await self._call(tool_id, args)
                case TakeMessage():
                    sent = await self.messages.get()
                    taken = UserMessageDelivered(message_id=sent.message_id, content=sent.message.text)
                    await self.context.events.publish(taken)
                case WaitFor(until=until):
                    await until.wait()
                case Fail(outcome=outcome):
                    self.outcome = outcome
                    return
                case _:
                    assert_never(action)

    async def _write_message(self, text: str, usage: TokenUsage) -> None:
        plan, events = self.context.plan, self.context.events
        self.message_count += 1
        self.text = text
        message_id = f"msg_{self.message_count}"
        for word in re.findall(r"\S*\s*", text)[:-1]:
            await events.publish(TextDelta(message_id=message_id, delta=word))
        fact = UsageFact(
            run=plan.run,
            attempt=plan.attempt,
            message_id=MessageId(message_id),
            attribution=plan.attribution,
            model=plan.model,
            usage=usage,
            executor_type="messages_api",
        )
        await events.publish(UsageReport(fact))
        await events.publish(Step(step_index=self.message_count, step_budget=plan.limits.max_turns))

    async def _call(self, tool_id: str, args: dict[str, Any]) -> None:
        plan, events = self.context.plan, self.context.events
        self._calls += 1
        call_id = f"call_{self._calls}"
        # First, because an approval request names a call that readers must have seen.
        await events.publish(ToolCallStart(tool_call_id=call_id, tool_name=tool_id, args=args))
        tools = {tool.id: tool for tool in plan.tools}
        policy = ToolPolicy(frozenset(tools), review=self.context.control.approvals.review)
        tool_context = ToolContext(run=plan.run, tool_call_id=call_id, request_id=plan.request_id)
        result = await ToolRunner(tools, policy).run(tool_id, args, tool_context)
        self.tool_failures += result.is_error
        await events.publish(
            ToolCallResult(tool_call_id=call_id, result=result.visible, is_error=result.is_error)
        )
