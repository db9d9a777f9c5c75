import pytest

from app.events import AssistantFinal, MeterReport, Step, TextDelta, UsageReport
from app.executors.port import MAX_TURNS, ExecutionFailed, RunContext
from app.requests.messages import Message
from app.requests.runs import GraphRunRequest
from app.usage.records import TokenUsage
from tests.factories import Events, a_control, a_plan
from tests.scripted import Action, Fail, ScriptedExecutor, WriteMessage

REQUEST = GraphRunRequest.of(
    graph_id="claude_agents:planner", messages=[Message.of(role="user", content="hi")]
)


async def played(*actions: Action) -> Events:
    events = Events()
    await ScriptedExecutor(lambda _: actions).run(REQUEST, RunContext(a_plan(), a_control(), events))
    return events


async def test_the_last_message_is_the_answer_and_each_is_a_step() -> None:
    usage = TokenUsage(input_tokens=1, output_tokens=2)
    published = (await played(WriteMessage("one  two\n"), WriteMessage("three", usage))).published

    deltas = [(event.message_id, event.delta) for event in published if isinstance(event, TextDelta)]
    assert deltas == [("msg_1", "one  "), ("msg_1", "two\n"), ("msg_2", "three")]
    assert [event.step_index for event in published if isinstance(event, Step)] == [1, 2]
    facts = [event.fact for event in published if isinstance(event, UsageReport)]
    assert [fact.message_id for fact in facts] == ["msg_1", "msg_2"]
    assert facts[1].usage == usage
    assert published[-1] == AssistantFinal(content="three")


async def test_a_script_may_end_without_an_answer() -> None:
    events = Events()
    executor = ScriptedExecutor(lambda _: [WriteMessage("one"), Fail(MAX_TURNS), WriteMessage("never")])

    with pytest.raises(ExecutionFailed) as failed:
        await executor.run(REQUEST, RunContext(a_plan(), a_control(), events))

    assert failed.value.outcome == MAX_TURNS
    assert isinstance(events.published[-1], MeterReport)
