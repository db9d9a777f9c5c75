"""The contract of every executor: the Claude Agent SDK's runs over a CLI in this process."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from app import events
from app.executors.approvals import Permissions
from app.executors.claude_agent.previewer import ClaudeAgentPreviewer
from app.executors.control import RunControl
from app.executors.inbox import RunEnded
from app.executors.messages_api.previewer import MessagesPreviewer
from app.executors.port import ExecutionFailed, GraphExecutor, GraphPreviewer, RunContext, RunPlan
from app.executors.waiting.records import Decision
from app.requests.messages import Message, SentMessage
from app.requests.run_request import GraphRunRequest
from tests.contracts.messages_executor import a_messages_executor
from tests.contracts.messages_executor import playing as played
from tests.factories import a_plan, asking
from tests.patience import PATIENCE_S
from tests.scripted import Action, CallTool, ScriptedExecutor, TakeMessage, WaitFor, WriteMessage
from tests.unit.executors.claude_agent.an_executor import a_graph, an_executor
from tests.unit.executors.claude_agent.fake_cli import FakeCli
from tests.unit.tools.samples.weather import weather

NAME = "mcp__runtally__demo__weather"
SENT = SentMessage(
    "3f3cf38e-4b6b-4f0e-a0fa-f0f3bb3c1a11", Message.of(role="user", content="and this"), "next"
)
Playing: TypeAlias = Callable[[Sequence[Action]], AbstractAsyncContextManager[GraphExecutor]]


@dataclass(slots=True)
class CliScript:
    """The CLI's side of the same actions."""

    actions: list[Action]

    async def __call__(self, cli: FakeCli, message: dict[str, Any]) -> None:
        cli.begin(message)
        while self.actions:
            match self.actions.pop(0):
                case WriteMessage(text=text):
                    cli.reply(text, message_id=f"msg_{len(self.actions)}")
                case CallTool(tool_id=tool_id, args=args):
                    await cli.call_tool(tool_id, f"call_{len(self.actions)}", **args)
                case TakeMessage():
                    # The next message comes with a call of its own.
                    return cli.result()
                case WaitFor(until=until):
                    await _either(until, cli.interrupted)
                    if cli.interrupted.is_set():
                        return cli.result(
                            subtype="error_during_execution",
                            terminal_reason="aborted_streaming",
                            is_error=True,
                        )
                case other:
                    raise AssertionError(other)
        return cli.result()


async def _either(*awaited: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in awaited]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


@pytest.fixture(params=["scripted", "claude_agent", "messages"])
def playing(request: pytest.FixtureRequest, tmp_path: Path) -> Playing:
    """Opens an executor that plays these actions."""

    @asynccontextmanager
    async def scripted(actions: Sequence[Action]) -> AsyncIterator[GraphExecutor]:
        yield ScriptedExecutor(lambda _: actions)

    @asynccontextmanager
    async def claude_agent(actions: Sequence[Action]) -> AsyncIterator[GraphExecutor]:
        tools = (NAME,) if any(isinstance(action, CallTool) for action in actions) else ()
        async with an_executor(tmp_path, FakeCli(CliScript(list(actions)), tools=tools)) as bench:
            yield bench.executor

    @asynccontextmanager
    async def messages(actions: Sequence[Action]) -> AsyncIterator[GraphExecutor]:
        async with a_messages_executor(played(actions)) as (executor, _):
            yield executor

    opened = {"scripted": scripted, "claude_agent": claude_agent, "messages": messages}
    return opened[request.param]


class Run:
    """One run, with everything it publishes."""

    def __init__(
        self, executor: GraphExecutor, *, permissions: Permissions | None = None, **plan: Any
    ) -> None:
        self.published: list[Any] = []
        self._changed = asyncio.Condition()
        self.control = RunControl(self.publish, permissions=permissions or Permissions())
        planned: RunPlan = a_plan(**{"spec": a_graph(), "timeout": timedelta(seconds=PATIENCE_S), **plan})
        request = GraphRunRequest.of(
            graph_id=planned.spec.id, messages=[Message.of(role="user", content="hi")]
        )
        self.task = asyncio.create_task(executor.run(request, RunContext(planned, self.control, self)))

    async def publish(self, event: Any) -> int:
        async with self._changed:
            self.published.append(event)
            self._changed.notify_all()
        return len(self.published)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.published if isinstance(event, kind)]

    async def first(self, kind: type[Any]) -> Any:
        async with asyncio.timeout(PATIENCE_S), self._changed:
            await self._changed.wait_for(lambda: self.of(kind))
        return self.of(kind)[0]

    async def outcome(self) -> tuple[str, str] | None:
        async with asyncio.timeout(PATIENCE_S):
            try:
                await self.task
            except ExecutionFailed as error:
                return error.outcome
        return None


async def test_an_answer_comes_last_and_every_message_is_reported_once(playing: Playing) -> None:
    async with playing([WriteMessage("hello")]) as executor:
        run = Run(executor)
        assert await run.outcome() is None

    assert "".join(event.delta for event in run.of(events.TextDelta)) == "hello"
    assert run.published[-1] == events.AssistantFinal(content="hello")
    (usage,) = run.of(events.UsageReport)
    assert usage.fact.usage.output_tokens == 20
    (report,) = run.of(events.MeterReport)
    assert (report.meters.sdk, report.tool_failures) == (1, 0)


async def test_a_cancelled_run_ends_as_aborted_and_reports_what_was_answered(playing: Playing) -> None:
    async with playing([WriteMessage("hello"), WaitFor(asyncio.Event())]) as executor:
        run = Run(executor)
        await run.first(events.UsageReport)
        await run.control.cancel()
        assert await run.outcome() == ("aborted", "aborted")

    assert len(run.of(events.UsageReport)) == 1
    assert run.of(events.AssistantFinal) == []
    states = [event.state for event in run.of(events.Interrupted)]
    assert states[:2] == ["requested", "acknowledged"]


async def test_a_run_ends_at_its_timeout(playing: Playing) -> None:
    async with playing([WaitFor(asyncio.Event())]) as executor:
        run = Run(executor, timeout=timedelta(seconds=0.05))
        assert await run.outcome() == ("timeout", "timeout")


async def test_a_message_of_a_client_is_delivered_once(playing: Playing) -> None:
    async with playing([WriteMessage("first"), TakeMessage(), WriteMessage("hello")]) as executor:
        run = Run(executor)
        run.control.send(SENT)
        assert await run.outcome() is None

    assert run.of(events.UserMessageDelivered) == [
        events.UserMessageDelivered(message_id=SENT.message_id, content="and this")
    ]
    assert len(run.of(events.UsageReport)) == 2


async def test_a_run_that_has_ended_takes_no_message(playing: Playing) -> None:
    async with playing([WriteMessage("hello")]) as executor:
        run = Run(executor)
        await run.outcome()
        with pytest.raises(RunEnded):
            run.control.send(SENT)


@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_a_tool_call_is_published_before_its_approval_is_requested(
    playing: Playing, decision: Any
) -> None:
    permissions = asking("read_only")
    fields = {"spec": a_graph(tools=(weather.id,)), "tools": (weather,)}
    async with playing([CallTool(weather.id, {"city": "Rome"}), WriteMessage("hello")]) as executor:
        run = Run(executor, permissions=permissions, **fields)
        request = await run.first(events.PermissionRequest)
        await run.control.approvals.decide(request.request_id, Decision(decision))
        assert await run.outcome() is None

    kinds: list[type[events.ControlEvent | Any]] = [type(event) for event in run.published]
    assert (
        kinds.index(events.ToolCallStart)
        < kinds.index(events.PermissionRequest)
        < kinds.index(events.ToolCallResult)
    )
    (result,) = run.of(events.ToolCallResult)
    assert result.is_error is (decision == "deny")
    assert result.result == ({"summary": "sunny"} if decision == "allow" else {"error": "policy_denied"})
    assert run.of(events.MeterReport)[0].tool_failures == (decision == "deny")


@pytest.mark.parametrize(
    "previewer",
    [
        ScriptedExecutor(lambda _: [WriteMessage("hello")]),
        ClaudeAgentPreviewer(needs_full_mode=False),
        MessagesPreviewer("5m"),
    ],
    ids=lambda previewer: type(previewer).__name__,
)
async def test_a_preview_shows_the_prompts(previewer: GraphPreviewer) -> None:
    request = GraphRunRequest.of(
        graph_id=a_graph().id, messages=[Message.of(role="user", content="what now?")]
    )
    preview = await previewer.preview(request, a_plan(spec=a_graph()))
    assert preview.system_prompt.startswith("Be brief.")
    assert preview.prompt[0]["text"] == "what now?"
