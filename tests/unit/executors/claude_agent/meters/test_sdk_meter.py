"""What the CLI's totals hold beyond the messages it showed."""

from typing import Any

from app.executors.claude_agent.meters.sdk_meter import residuals
from app.executors.claude_agent.meters.usage import MeteredMessage
from app.ids import MessageId
from app.usage.records import TokenUsage

REQUESTED = "claude-sonnet-5-5"
OTHER = "claude-haiku-5-5"


def a_message(*tokens: int, model: str = REQUESTED, final: bool = True, **fields: Any) -> MeteredMessage:
    return MeteredMessage(MessageId("msg_1"), model, TokenUsage(*tokens), final, **fields)


def test_nothing_is_left_when_every_message_was_shown() -> None:
    after = {REQUESTED: TokenUsage(30, 5, 7)}

    assert residuals({}, after, [a_message(10, 2, 7), a_message(20, 3)], requested_model=REQUESTED) == {}


def test_what_earlier_runs_of_a_conversation_used_is_not_charged_again() -> None:
    before, after = {REQUESTED: TokenUsage(100, 50)}, {REQUESTED: TokenUsage(110, 52)}

    assert residuals(before, after, [a_message(10, 2)], requested_model=REQUESTED) == {}


def test_a_call_that_was_not_shown_is_left_over() -> None:
    after = {REQUESTED: TokenUsage(15, 6, 7, 8, 9)}

    left = residuals({}, after, [a_message(10, 2)], requested_model=REQUESTED)

    assert left == {REQUESTED: (TokenUsage(5, 4, 7, 8, 9), True)}


def test_a_hidden_call_of_another_model_keeps_its_model() -> None:
    after = {REQUESTED: TokenUsage(10, 2), OTHER: TokenUsage(400, 30)}

    assert residuals({}, after, [a_message(10, 2)], requested_model=REQUESTED) == {
        OTHER: (TokenUsage(400, 30), True)
    }


def test_a_message_served_by_another_model_than_asked_is_not_counted_twice() -> None:
    assert (
        residuals(
            {}, {REQUESTED: TokenUsage(10, 2)}, [a_message(10, 2, model=OTHER)], requested_model=REQUESTED
        )
        == {}
    )


def test_the_estimate_of_a_message_cut_off_is_no_hidden_call() -> None:
    cut = a_message(10, 2, final=False)

    assert residuals({}, {REQUESTED: TokenUsage(10, 20)}, [cut], requested_model=REQUESTED) == {}
    assert residuals({}, {}, [cut], requested_model=REQUESTED) == {}


def test_beside_a_message_cut_off_input_betrays_a_hidden_call() -> None:
    left = residuals(
        {}, {REQUESTED: TokenUsage(60, 20)}, [a_message(10, 2, final=False)], requested_model=REQUESTED
    )

    assert left == {REQUESTED: (TokenUsage(50, 18), False)}


def test_the_advisors_calls_are_part_of_their_message() -> None:
    advisor = {"type": "advisor_message", "model": OTHER, "input_tokens": 400, "output_tokens": 30}
    others = [{"type": "message", "input_tokens": 10}, {"type": "compaction", "input_tokens": 9}, "x"]
    shown = a_message(10, 2, reported={"iterations": [advisor, *others]})
    after = {REQUESTED: TokenUsage(10, 2), OTHER: TokenUsage(450, 30)}

    left = residuals({}, after, [shown], requested_model=REQUESTED)

    assert left == {OTHER: (TokenUsage(50, 0), True)}
