import asyncio

import pytest

from app.events import ControlEvent, RunWarning
from app.executors.control import RunControl
from app.executors.inbox import MessageInbox, MessageLimits, MessageQueueFull, RunEnded
from app.requests.messages import Message, SentMessage
from tests.factories import a_control
from tests.patience import PATIENCE_S


def a_message(number: int, text: str = "hello") -> SentMessage:
    return SentMessage(f"m{number}", Message.of(role="user", content=text), "next")


async def test_more_messages_than_may_wait_are_refused() -> None:
    inbox = MessageInbox(MessageLimits(count=2, size=1000))
    inbox.put(a_message(1))
    inbox.put(a_message(2))

    with pytest.raises(MessageQueueFull) as refused:
        inbox.put(a_message(3))
    assert refused.value.retry_after_s
    inbox.put(a_message(2))


async def test_larger_messages_than_may_wait_are_refused_unless_they_are_alone() -> None:
    inbox = MessageInbox(MessageLimits(count=10, size=100))

    inbox.put(a_message(1, "x" * 200))
    with pytest.raises(MessageQueueFull):
        inbox.put(a_message(2, "y"))


async def test_a_message_that_has_taken_effect_makes_room() -> None:
    inbox = MessageInbox(MessageLimits(count=1, size=100))
    inbox.put(a_message(1))

    inbox.mark_delivered("m1", 7)

    inbox.put(a_message(2))
    assert await inbox.wait_for_position("m1", within_s=PATIENCE_S) == 7


async def test_messages_are_delivered_in_order_also_those_from_before_the_agent_was_there() -> None:
    inbox, delivered = MessageInbox(), asyncio.Queue[SentMessage]()
    inbox.put(a_message(1))
    with inbox.forwarding_to(delivered.put_nowait):
        inbox.put(a_message(2))
        inbox.put(a_message(2))
        inbox.put(a_message(3))
        async with asyncio.timeout(PATIENCE_S):
            assert [(await delivered.get()).message_id for _ in range(3)] == ["m1", "m2", "m3"]
    assert delivered.empty()


async def test_the_sender_of_a_message_that_the_agent_refuses_hears_that_the_run_has_ended() -> None:
    inbox = MessageInbox()

    def refuse(_sent: SentMessage) -> None:
        raise RunEnded

    with inbox.forwarding_to(refuse):
        inbox.put(a_message(1))
        with pytest.raises(RunEnded):
            await inbox.wait_for_position("m1", within_s=PATIENCE_S)


async def test_a_message_that_arrives_before_the_agents_end_is_delivered() -> None:
    inbox, delivered = MessageInbox(), list[SentMessage]()
    with inbox.forwarding_to(delivered.append):
        inbox.put(a_message(1))
    assert [sent.message_id for sent in delivered] == ["m1"]


async def test_a_message_that_comes_too_late_for_the_agent_is_refused() -> None:
    inbox, delivered = MessageInbox(), list[SentMessage]()
    with inbox.forwarding_to(delivered.append):
        pass
    with pytest.raises(RunEnded):
        inbox.put(a_message(1))
    assert delivered == []


async def test_a_message_that_cannot_be_delivered_fails_alone() -> None:
    inbox, delivered = MessageInbox(MessageLimits(count=1)), list[str]()

    def deliver(sent: SentMessage) -> None:
        if sent.message_id != "m3":
            raise ValueError(sent.message_id)
        delivered.append(sent.message_id)

    inbox.put(a_message(1))
    with inbox.forwarding_to(deliver):
        inbox.put(a_message(2))
        inbox.put(a_message(3))
        for failed in ("m1", "m2"):
            with pytest.raises(ValueError, match=failed):
                await inbox.wait_for_position(failed, within_s=PATIENCE_S)
    assert delivered == ["m3"]


@pytest.mark.parametrize("goes_on", ["parked", "handed over", None])
async def test_a_run_that_ends_names_the_messages_that_its_agent_has_not_got(goes_on: str | None) -> None:
    published: list[ControlEvent] = []

    async def publish(event: ControlEvent) -> None:
        published.append(event)

    control = RunControl(publish)
    for number in (1, 2):
        control.send(a_message(number))
    control.inbox.mark_delivered("m1", 5)
    control.is_handed_over = goes_on == "handed over"
    await control.end(is_parked=goes_on == "parked")

    # The next attempt gets it.
    expected = [] if goes_on else [("messages_not_delivered", ["m2"])]
    assert [(each.code, each.names) for each in published if isinstance(each, RunWarning)] == expected
    assert len(published) == len(expected)


async def test_the_sender_of_a_message_without_effect_stops_waiting_when_the_run_ends() -> None:
    control: RunControl = a_control()
    control.send(a_message(1))
    waiting = asyncio.create_task(control.inbox.wait_for_position("m1", within_s=10 * PATIENCE_S))
    await control.end()
    async with asyncio.timeout(PATIENCE_S):
        assert await waiting is None
    with pytest.raises(RunEnded):
        control.send(a_message(2))


async def test_a_run_that_is_stopped_takes_no_message() -> None:
    control: RunControl = a_control()
    await control.cancel()
    with pytest.raises(RunEnded):
        control.send(a_message(1))
