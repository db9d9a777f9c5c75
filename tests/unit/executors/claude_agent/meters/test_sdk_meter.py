"""What the CLI's totals hold beyond the messages it showed."""

from typing import Any

import pytest

from app.executors.claude_agent.meters.sdk_meter import residuals
from app.executors.claude_agent.meters.usage import MeteredMessage
from app.ids import MessageId
from app.usage.records import TokenUsage

REQUESTED = "claude-sonnet-5-5"
OTHER = "claude-haiku-5-5"


def a_message(*tokens: int, model: str = REQUESTED, final: bool = True, **fields: Any) -> MeteredMessage:
    return MeteredMessage(MessageId("msg_1"), model, TokenUsage(*tokens), final, **fields)


CUT = a_message(10, 2, final=False)


@pytest.mark.parametrize(
    ("before", "after", "shown", "left"),
    [
        pytest.param((), (30, 5, 7), [a_message(10, 2, 7), a_message(20, 3)], None, id="all were shown"),
        pytest.param((100, 50), (110, 52), [a_message(10, 2)], None, id="of earlier runs"),
        pytest.param((), (15, 6, 7, 8, 9), [a_message(10, 2)], (5, 4, 7, 8, 9), id="one was not shown"),
        pytest.param((), (10, 2), [a_message(10, 2, model=OTHER)], None, id="served by another model"),
        pytest.param((), (10, 20), [CUT], None, id="the estimate of one cut off"),
        pytest.param((), (), [CUT], None, id="one cut off without totals"),
        pytest.param((), (60, 20), [CUT], (50, 18), id="input beside one cut off"),
    ],
)
def test_what_is_left_is_what_was_not_shown(
    before: tuple[int, ...], after: tuple[int, ...], shown: list[MeteredMessage], left: tuple[int, ...] | None
) -> None:
    totals = [{REQUESTED: TokenUsage(*each)} if each else {} for each in (before, after)]

    found = residuals(totals[0], totals[1], shown, requested_model=REQUESTED)

    # Beside a message that was cut off the output is an estimate.
    assert found == ({REQUESTED: (TokenUsage(*left), CUT not in shown)} if left else {})


def test_a_hidden_call_of_another_model_keeps_its_model() -> None:
    after = {REQUESTED: TokenUsage(10, 2), OTHER: TokenUsage(400, 30)}

    assert residuals({}, after, [a_message(10, 2)], requested_model=REQUESTED) == {
        OTHER: (TokenUsage(400, 30), True)
    }


def test_the_advisors_calls_are_part_of_their_message() -> None:
    advisor = {"type": "advisor_message", "model": OTHER, "input_tokens": 400, "output_tokens": 30}
    others = [{"type": "message", "input_tokens": 10}, {"type": "compaction", "input_tokens": 9}, "x"]
    shown = a_message(10, 2, reported={"iterations": [advisor, *others]})
    after = {REQUESTED: TokenUsage(10, 2), OTHER: TokenUsage(450, 30)}

    left = residuals({}, after, [shown], requested_model=REQUESTED)

    assert left == {OTHER: (TokenUsage(50, 0), True)}
