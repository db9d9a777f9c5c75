"""The state of a run that is parked with its CLI."""

from dataclasses import replace

from app.executors.claude_agent.run_stream import steps_of
from app.executors.claude_agent.transcripts.open_calls import parked
from tests.factories import a_conversation, a_plan

LINES = [{"type": "user", "uuid": "1"}]


def test_only_a_run_without_a_conversation_keeps_its_lines_in_its_state() -> None:
    alone = a_plan()
    in_chat = replace(alone, conversation=a_conversation(alone.run.account_id))

    assert [parked(plan, LINES, steps=2).state["lines"] for plan in (alone, in_chat)] == [LINES, []]


def test_steps_are_counted_on() -> None:
    plan = a_plan()
    state = parked(plan, LINES, steps=2).state

    assert [steps_of(plan), steps_of(replace(plan, parked=state))] == [0, 2]
