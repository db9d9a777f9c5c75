from collections.abc import Sequence
from typing import Any

import pytest

from app.executors.inbox import RunEnded
from app.executors.messages_api.waiting_messages import WaitingMessages
from app.requests.messages import Message, SentMessage


def sent(name: str, priority: Any) -> SentMessage:
    return SentMessage(name, Message.of(role="user", content=name), priority)


def names(messages: Sequence[SentMessage]) -> list[str]:
    return [message.message_id for message in messages]


def test_urgent_messages_come_together_and_later_ones_each_in_a_turn_of_its_own() -> None:
    interrupts: list[int] = []
    waiting = WaitingMessages(lambda: interrupts.append(1))
    for name, priority in [("a", "later"), ("b", "next"), ("c", "later"), ("d", "next")]:
        waiting.add(sent(name, priority))

    assert interrupts == []
    assert names(waiting.take_urgent()) == ["b", "d"]
    assert [names(waiting.take_next()) for _ in range(3)] == [["a"], ["c"], []]


def test_a_message_for_now_interrupts() -> None:
    interrupts: list[int] = []
    waiting = WaitingMessages(lambda: interrupts.append(1))
    waiting.add(sent("a", "now"))

    assert (interrupts, names(waiting.take_next())) == ([1], ["a"])


def test_no_message_is_taken_after_the_last_answer() -> None:
    waiting = WaitingMessages(lambda: None)
    waiting.close()

    with pytest.raises(RunEnded):
        waiting.add(sent("a", "next"))
