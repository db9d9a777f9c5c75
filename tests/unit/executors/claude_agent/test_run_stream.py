"""How a run ends that was sent messages its agent never took up."""

import pytest
from claude_agent_sdk import Message as SdkMessage
from claude_agent_sdk import UserMessage

from app.executors.claude_agent.meters.comparing_meter import ComparingMeter
from app.executors.claude_agent.run_stream import RunStream
from app.executors.port import ABORTED, ExecutionFailed, RunOutcome
from app.requests.messages import Message, SentMessage
from tests.factories import a_plan
from tests.unit.executors.claude_agent.frames import a_result, assistant
from tests.unit.gateway.calls import Billing, a_channel

SENT = SentMessage("3f3cf38e-4b6b-4f0e-a0fa-f0f3bb3c1a11", Message(role="user", content="and this"), "later")


def a_turn() -> RunStream:
    """A turn that has answered."""
    plan = a_plan()
    turn = RunStream(plan, take_result=lambda _: None, meter=ComparingMeter(plan, a_channel(Billing())))
    assert list(turn.feed(a_result())) == []
    return turn


async def test_the_last_answer_stands_when_everything_was_taken_up() -> None:
    assert a_turn().answer(None).content == "hello"
    # A wish to stop that came too late changes nothing.
    assert a_turn().answer(ABORTED).content == "hello"


@pytest.mark.parametrize(
    ("stopped", "error"), [(ABORTED, "aborted"), (None, "internal")], ids=["cancelled", "the CLI died"]
)
async def test_an_answer_to_an_earlier_message_is_none_to_one_never_taken_up(
    stopped: RunOutcome | None, error: str
) -> None:
    turn = a_turn()
    turn.expect_message(SENT)

    with pytest.raises(ExecutionFailed) as failed:
        turn.answer(stopped)

    assert failed.value.outcome[0] == error


async def test_once_taken_up_and_answered_the_answer_stands() -> None:
    turn = a_turn()
    turn.expect_message(SENT)
    list(turn.feed(UserMessage(content="and this", uuid=SENT.message_id)))
    list(turn.feed(a_result(result="and that")))

    assert turn.answer(None).content == "and that"


@pytest.mark.parametrize(
    ("later", "is_clean"),
    [
        ([], True),
        ([a_result(stop_reason="refusal")], False),
        ([assistant(error="server_error"), a_result()], False),
    ],
    ids=["an answer", "a refusal", "an answer after an error"],
)
async def test_a_process_may_serve_another_run_after_an_answer_without_errors_only(
    later: list[SdkMessage], *, is_clean: bool
) -> None:
    turn = a_turn()
    for message in later:
        list(turn.feed(message))

    assert turn.is_clean == is_clean
