import pytest

from app.events import UserMessageDelivered
from app.executors.control import MessageLimits, MessageQueueFull, RunControl
from app.requests import Message, SentMessage


def a_message(number: int, text: str = "hello") -> SentMessage:
    return SentMessage(f"m{number}", Message.of(role="user", content=text), "next")


async def test_more_messages_than_may_wait_are_refused() -> None:
    control = RunControl(MessageLimits(count=2, size=1000))
    control.send(a_message(1))
    control.send(a_message(2))

    with pytest.raises(MessageQueueFull) as refused:
        control.send(a_message(3))
    assert refused.value.retry_after_s
    control.send(a_message(2))


async def test_larger_messages_than_may_wait_are_refused_unless_they_are_alone() -> None:
    control = RunControl(MessageLimits(count=10, size=100))

    control.send(a_message(1, "x" * 200))
    with pytest.raises(MessageQueueFull):
        control.send(a_message(2, "y"))


async def test_a_message_that_has_taken_effect_makes_room() -> None:
    control = RunControl(MessageLimits(count=1, size=100))
    control.send(a_message(1))

    control.on_published(UserMessageDelivered(message_id="m1", content="hello"), 7)

    control.send(a_message(2))
