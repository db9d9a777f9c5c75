"""The loop of the Messages API executor: failed calls, broken messages, structured answers, limits."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import anyio
import pytest

from app import events
from app.executors.api_format.web import MOST_PAUSES
from app.executors.messages_api.exchange import CUT_OFF_PROMPT, MOST_CUTS
from app.executors.messages_api.loop import EMPTY_PROMPT, STRUCTURED_OUTPUT_PROMPT, TOO_LONG_PROMPT
from app.executors.port import RunContext
from app.models.registry import ModelOptions
from app.requests.messages import Message, SentMessage
from app.requests.run_request import GraphRunRequest, ResponseFormat
from app.simulator.script import Answer, Hold, HttpError, Reply, Text, Thinking, ToolUse, in_turn
from app.simulator.server import Simulator
from runtally.tools.content import ToolImage, ToolText
from runtally.tools.tool import ToolContext, ToolOutput, tool
from tests.contracts.messages_executor import a_messages_executor
from tests.contracts.test_executor import SENT, Run
from tests.factories import a_plan, schemas_of
from tests.patience import PATIENCE_S
from tests.unit.executors.claude_agent.an_executor import a_graph
from tests.unit.tools.samples.weather import Weather, WeatherArgs, weather

EXACT = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
OPEN = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]}

TOOLS: dict[str, Any] = {"tools": (weather,), "spec": a_graph(tools=(weather.id,))}
URGENT = SentMessage(
    "5f3cf38e-4b6b-4f0e-a0fa-f0f3bb3c1a11", Message.of(role="user", content="at once"), "now"
)


class Asked(Run):
    """A run with a response format."""

    def __init__(self, executor: Any, schema: dict[str, Any] | None = None, **plan: Any) -> None:
        super().__init__(executor, **plan)
        self.task.cancel()
        planned = a_plan(
            **{
                "spec": a_graph(),
                "timeout": timedelta(seconds=30),
                "schemas": schemas_of(answer=schema),
                **plan,
            }
        )
        request = GraphRunRequest.of(
            graph_id=planned.spec.id,
            messages=[Message.of(role="user", content="hi")],
            response_format=None if schema is None else ResponseFormat.of(type="json_schema", schema_=schema),
        )
        self.task = asyncio.create_task(executor.run(request, RunContext(planned, self.control, self)))


class Held(Asked):
    """A run whose first event of a kind waits before clients have it."""

    def __init__(self, executor: Any, kind: type[Any], **plan: Any) -> None:
        self.kind = kind
        self.reached, self.until = asyncio.Event(), asyncio.Event()
        super().__init__(executor, **plan)

    async def publish(self, event: Any) -> int:
        if isinstance(event, self.kind) and not self.reached.is_set():
            self.reached.set()
            await self.until.wait()
        return await super().publish(event)

    async def interrupted_there(self) -> None:
        """Send an urgent message while the event waits."""
        async with asyncio.timeout(PATIENCE_S):
            await self.reached.wait()
        self.control.send(URGENT)
        # The turn is being cancelled.
        await asyncio.sleep(0)
        self.until.set()


async def played(
    *answers: Answer, schema: dict[str, Any] | None = None, **plan: Any
) -> tuple[Run, Any, Simulator]:
    """A run over these answers, how it ended, and its provider."""
    async with a_messages_executor(in_turn(*answers)) as (executor, simulator):
        run = Asked(executor, schema, **plan)
        return run, await run.outcome(), simulator


def prompts(simulator: Simulator) -> list[str]:
    """The last text of each request."""
    return [request.body["messages"][-1]["content"][-1].get("text", "") for request in simulator.requests]


@pytest.mark.parametrize("status", [408, 409, 429, 500, 529])
async def test_a_busy_provider_is_asked_again_and_clients_are_told(status: int) -> None:
    busy = HttpError(status, headers={"retry-after-ms": "20"})
    run, outcome, simulator = await played(busy, HttpError(status), Reply([Text("hello")]))

    assert (outcome, len(simulator.requests)) == (None, 3)
    assert len(run.of(events.UsageReport)) == 1
    first, second = run.of(events.Status)
    assert (first.phase, first.attempt, first.in_s) == ("retrying", 1, 0.02)
    assert (second.phase, second.attempt) == ("retrying", 2)
    assert second.in_s is not None
    assert 0.75 <= second.in_s <= 1


async def test_a_run_that_waits_for_its_provider_can_be_cancelled() -> None:
    async with a_messages_executor(in_turn(HttpError(529, headers={"retry-after": "1000"}))) as (executor, _):
        run = Asked(executor)
        await run.first(events.Status)
        await run.control.cancel()
        assert await run.outcome() == ("aborted", "aborted")


async def test_a_run_that_waits_for_its_provider_ends_in_time() -> None:
    busy = HttpError(529, headers={"retry-after": "1000"})
    run, outcome, _ = await played(busy, timeout=timedelta(seconds=2))

    assert outcome == ("timeout", "timeout")
    assert run.of(events.UsageReport) == []


@pytest.mark.parametrize(
    ("status", "error", "calls"),
    [
        (400, "invalid_request", 1),
        (401, "provider_unavailable", 1),
        (404, "invalid_request", 1),
        (429, "rate_limit", 3),
        (529, "provider_unavailable", 3),
    ],
)
async def test_a_refused_call_ends_the_run_and_no_text_of_the_provider_is_shown(
    status: int, error: str, calls: int
) -> None:
    run, outcome, simulator = await played(*[HttpError(status)] * 3)

    assert (outcome, len(simulator.requests)) == ((error, "error"), calls)
    assert "secret upstream detail" not in str(run.published)
    assert run.of(events.UsageReport) == []


async def test_a_provider_that_cannot_be_reached_ends_the_run() -> None:
    async with a_messages_executor(in_turn()) as (executor, simulator):
        await simulator.__aexit__(None, None, None)
        run = Asked(executor)
        assert await run.outcome() == ("provider_unavailable", "error")


async def test_an_overloaded_model_is_replaced_by_its_fallback() -> None:
    options = ModelOptions(fallback="claude-haiku-5-5")
    _, outcome, simulator = await played(*[HttpError(529)] * 3, Reply([Text("hello")]), options=options)

    assert outcome is None
    assert simulator.requests[-1].body["model"] == "claude-haiku-5-5"


async def test_a_message_that_broke_off_is_continued_and_each_part_is_billed() -> None:
    run, outcome, simulator = await played(
        Reply([Text("one two three")], cut_after=5), Reply([Text(" four")], final_usage={"output_tokens": 7})
    )

    assert outcome is None
    assert run.published[-1] == events.AssistantFinal(content="one two four")
    assert prompts(simulator)[1] == CUT_OFF_PROMPT
    assert sorted(report.fact.basis for report in run.of(events.UsageReport)) == ["final", "partial"]
    assert [step.step_index for step in run.of(events.Step)] == [1]


@pytest.mark.parametrize(
    ("first", "content", "prompt"),
    [
        (Reply([Text("one ")], stop_reason="max_tokens"), "one hello", TOO_LONG_PROMPT),
        (Reply([Thinking("hm")]), "hello", EMPTY_PROMPT),
        (Reply([Text("one two")], cut_after=2), "hello", "hi"),
        (Reply([Text("one")], error_after=(3, "overloaded_error")), "hello", "hi"),
        (Reply([Text("one")], error_after=(3, "api_error")), "hello", "hi"),
    ],
    ids=["too long", "without text", "broken off before its text", "overloaded", "an error in the stream"],
)
async def test_a_message_that_is_no_end_is_asked_for_once_more(
    first: Reply, content: str, prompt: str
) -> None:
    run, outcome, simulator = await played(first, Reply([Text("hello")]))

    assert (outcome, run.published[-1]) == (None, events.AssistantFinal(content=content))
    assert prompts(simulator)[1] == prompt


async def test_thinking_of_a_message_that_broke_off_is_void() -> None:
    spec = a_graph(show_thinking=True)
    broken = Reply([Thinking("so it"), Text("one")], cut_after=5)
    run, outcome, _ = await played(broken, Reply([Text("hello")]), spec=spec)

    assert outcome is None
    assert run.of(events.MessageDiscarded) == [events.MessageDiscarded(message_id=broken.message_id)]
    (status,) = [each for each in run.of(events.Status) if each.phase == "retrying"]
    assert (status.label, status.attempt) == ("Retrying", 1)


async def test_complete_calls_of_a_message_that_broke_off_are_made() -> None:
    # message_start, ping, start, delta and stop of the call, start of the text.
    broken = Reply([ToolUse(weather.id, {"a": 1}), Text("x")], cut_after=6)
    run, outcome, _ = await played(
        broken, Reply([Text("hello")]), tools=(weather,), spec=a_graph(tools=(weather.id,))
    )

    assert outcome is None
    assert [result.is_error for result in run.of(events.ToolCallResult)] == [True]


async def test_a_provider_whose_messages_all_break_off_is_unavailable() -> None:
    cuts = [Reply([Text("one two")], cut_after=4) for _ in range(MOST_CUTS + 1)]
    run, outcome, _ = await played(*cuts)

    assert outcome == ("provider_unavailable", "error")
    assert len(run.of(events.UsageReport)) == MOST_CUTS + 1


@pytest.mark.parametrize("reason", ["compaction", "new"])
async def test_a_message_that_is_no_answer_ends_the_run(reason: str) -> None:
    run, outcome, _ = await played(Reply([Text("no")], stop_reason=reason))

    assert outcome == ("internal", "error")
    assert len(run.of(events.UsageReport)) == 1


async def test_a_turn_is_not_paused_for_ever() -> None:
    pauses = [Reply([Text("Wait.")], stop_reason="pause_turn") for _ in range(MOST_PAUSES + 1)]
    run, outcome, simulator = await played(*pauses)

    assert outcome == ("internal", "error")
    assert len(run.of(events.UsageReport)) == MOST_PAUSES + 1
    # The message is sent back as it was, with no other after it.
    assert {request.messages[-1]["role"] for request in simulator.requests[1:]} == {"assistant"}


async def test_a_structured_answer_in_the_providers_format() -> None:
    run, outcome, _ = await played(Reply([Text('{"n": '), Text("3}")]), schema=EXACT)

    assert outcome is None
    assert run.published[-1] == events.AssistantFinal(content='{"n": 3}', structured_output={"n": 3})


async def test_a_schema_that_the_provider_refuses_becomes_that_of_a_tool() -> None:
    answers = (HttpError(400), Reply([ToolUse("StructuredOutput", {"n": 3})]))
    run, outcome, simulator = await played(*answers, schema=EXACT)

    assert outcome is None
    assert run.published[-1].structured_output == {"n": 3}
    first, second = (request.body for request in simulator.requests)
    assert "output_config" in first
    assert "output_config" not in second
    assert second["tools"][0]["input_schema"] == EXACT


@pytest.mark.parametrize("text", ["three", '{"n": "3"}', "[" * 100_000])
async def test_a_structured_answer_that_is_none_is_an_error(text: str) -> None:
    _, outcome, _ = await played(Reply([Text(text)]), schema=EXACT)

    assert outcome == ("internal", "error")


async def test_a_structured_answer_by_a_tool() -> None:
    run, outcome, simulator = await played(
        Reply([Text("three")]),
        Reply([ToolUse("StructuredOutput", raw="{")]),
        Reply([ToolUse("StructuredOutput", {"n": 3})]),
        schema=OPEN,
    )

    assert outcome is None
    final = run.published[-1]
    assert (json.loads(final.content), final.structured_output) == ({"n": 3}, {"n": 3})
    assert prompts(simulator)[1] == STRUCTURED_OUTPUT_PROMPT
    assert simulator.requests[2].body["messages"][-1]["content"][0]["is_error"]
    assert run.of(events.ToolCallResult) == []


@tool(id="demo__picture", description="A picture.", effect="read_only", redact=())
async def picture(_args: WeatherArgs, _context: ToolContext) -> ToolOutput[Weather]:
    output = Weather(summary="", station_id="")
    return ToolOutput("A dot.", output, content=(ToolText("A dot."), ToolImage("image/png", "iVBORw0KGgo=")))


@pytest.mark.parametrize(
    "refused",
    [
        HttpError(400, message="messages.2.content.0.tool_result.content.1.image: Could not process image"),
        HttpError(413, message="Request exceeds the maximum size"),
    ],
)
async def test_an_image_of_a_tool_that_the_provider_refuses_does_not_end_the_run(refused: HttpError) -> None:
    run, outcome, simulator = await played(
        Reply([ToolUse(picture.id, {"city": "Rome"})]),
        refused,
        Reply([Text("hello")]),
        tools=(picture,),
        spec=a_graph(tools=(picture.id,)),
    )

    assert (outcome, run.published[-1]) == (None, events.AssistantFinal(content="hello"))
    contents = [str(request.body["messages"][-1]["content"]) for request in simulator.requests]
    assert ["'image/png'" in content for content in contents] == [False, True, False]
    assert "A dot." in contents[-1]
    assert [warning.code for warning in run.of(events.RunWarning)] == ["attachments_left_out"]


@pytest.mark.parametrize("kind", [events.ToolCallResult, events.UserMessageDelivered])
async def test_an_urgent_message_loses_no_result_and_no_message(kind: type[Any]) -> None:
    answers = in_turn(Reply([Text("So."), ToolUse(weather.id, {"city": "Rome"})]), Reply([Text("hello")]))
    async with a_messages_executor(answers) as (executor, simulator):
        run = Held(executor, kind, **TOOLS)
        run.control.send(SENT)
        await run.interrupted_there()
        assert await run.outcome() is None

    last = simulator.requests[-1].body["messages"]
    assert [message["role"] for message in last[:2]] == ["user", "assistant"]
    content = [block for message in last[2:] for block in message["content"]]
    assert [block["is_error"] for block in content if block["type"] == "tool_result"] == [False]
    assert [block["text"] for block in content if block["type"] == "text"] == ["and this", "at once"]
    delivered = [event.message_id for event in run.of(events.UserMessageDelivered)]
    assert delivered == [SENT.message_id, URGENT.message_id]
    assert len(run.of(events.ToolCallResult)) == 1


async def test_an_urgent_message_loses_no_message_of_the_model() -> None:
    answers = in_turn(Reply([Text("one two")]), Reply([Text("three")]))
    async with a_messages_executor(answers) as (executor, simulator):
        run = Held(executor, events.Step)
        await run.interrupted_there()
        assert await run.outcome() is None

    roles = [message["role"] for message in simulator.requests[-1].body["messages"]]
    assert roles == ["user", "assistant", "user"]


async def test_a_run_whose_server_stops_is_closed_before_it_ends() -> None:
    hold = Hold(index=5)
    async with a_messages_executor(in_turn(Reply([Text("one two three")], hold=hold))) as (executor, _):
        run = Asked(executor)
        run.task.cancel()
        request = GraphRunRequest.of(graph_id=a_graph().id, messages=[Message.of(role="user", content="hi")])
        context = RunContext(a_plan(spec=a_graph(), timeout=timedelta(seconds=PATIENCE_S)), run.control, run)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(executor.run, request, context)
            await run.first(events.TextDelta)
            tasks.cancel_scope.cancel()
        # Whatever is not reported by now comes after the end of the run's bill.
        assert [report.fact.basis for report in run.of(events.UsageReport)] == ["partial"]
        assert len(run.of(events.MeterReport)) == 1
