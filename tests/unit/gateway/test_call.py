import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from app.gateway.answer_usage import MessageUsage
from app.gateway.call import COUNTED, ESTIMATED, REPEATED, Call
from app.gateway.channel import Channel
from app.ids import MessageId
from app.usage.records import TokenUsage
from tests.unit.gateway.calls import MODEL, Billing, a_channel, a_message, size


async def in_a_call(channel: Channel, *steps: Any) -> None:
    async with channel.call(size()) as call:
        for step in steps:
            step(call)


def sent(call: Call) -> None:
    call.on_sent()


def answered(number: int, **fields: Any) -> Any:
    def step(call: Call) -> None:
        call.on_start(a_message(number, complete=False, **fields))
        call.on_usage(a_message(number, **fields))

    return step


async def test_a_prompt_that_was_sent_stands_until_its_answer_begins() -> None:
    billing = Billing()
    channel = a_channel(billing)

    await in_a_call(channel, sent, answered(1))

    assert billing.noted == [
        ("opened", "unanswered-1"),
        ("opened", "msg_1 instead of unanswered-1"),
        ("closed", "msg_1"),
    ]
    assert list(channel.messages) == ["msg_1"]


async def test_an_answer_that_comes_whole_takes_its_prompts_place_too() -> None:
    billing = Billing()

    await in_a_call(a_channel(billing), sent, lambda call: call.on_usage(a_message()))

    assert billing.noted[1:] == [("opened", "msg_1 instead of unanswered-1"), ("closed", "msg_1")]


async def test_a_prompt_nobody_answers_is_closed_with_what_is_known_of_it() -> None:
    billing = Billing()
    channel = a_channel(billing)

    await in_a_call(channel, sent, lambda call: call.on_no_answer(counted=None))
    await in_a_call(channel, sent, lambda call: call.on_no_answer(counted=77))

    estimated, counted = channel.messages.values()
    assert (estimated.message_id, estimated.usage, estimated.note) == (
        "unanswered-1",
        TokenUsage(input_tokens=3),
        ESTIMATED,
    )
    assert (counted.message_id, counted.usage, counted.note) == (
        "unanswered-2",
        TokenUsage(input_tokens=77),
        COUNTED,
    )
    assert (counted.model, counted.complete, counted.output_estimated) == (MODEL, False, True)


async def test_a_prompt_that_was_refused_or_never_sent_costs_nothing() -> None:
    billing = Billing()
    channel = a_channel(billing)

    await in_a_call(channel, sent, Call.on_refused, lambda call: call.on_no_answer(counted=77))
    await in_a_call(channel, lambda call: call.on_no_answer(counted=77))

    assert channel.messages == {}
    assert billing.noted == [("opened", "unanswered-1"), ("voided", "unanswered-1")]


async def test_an_id_that_is_used_again_names_another_message() -> None:
    channel = a_channel(Billing())

    await in_a_call(channel, sent, answered(1))
    await in_a_call(channel, sent, answered(1))
    await in_a_call(channel, sent, lambda call: call.on_usage(an_answer("msg_1~2")))
    await in_a_call(channel, sent, lambda call: call.on_usage(an_answer("unanswered-1")))

    assert list(channel.messages) == ["msg_1", "msg_1~2", "msg_1~2~2", "unanswered-1~2"]
    first, second, *_ = channel.messages.values()
    assert (first.duplicate_of, first.note) == (None, None)
    assert (second.duplicate_of, second.note) == ("msg_1", REPEATED)


async def test_calls_at_once_that_are_answered_alike_are_told_apart() -> None:
    channel = a_channel(Billing())

    async with channel.call(size()) as one, channel.call(size()) as other:
        one.on_start(a_message(1, complete=False))
        other.on_start(a_message(1, complete=False))
        one.on_usage(a_message(1, tokens=1))
        other.on_usage(a_message(1, tokens=2))
    await asyncio.sleep(0)

    used = {name: message.usage.output_tokens for name, message in channel.messages.items()}
    assert used == {"msg_1": 1, "msg_1~2": 2}


async def test_a_message_has_the_time_of_the_channels_clock() -> None:
    then = datetime(2026, 12, 1, tzinfo=UTC)
    channel = a_channel(Billing())
    channel.hooks = replace(channel.hooks, now=lambda: then)

    await in_a_call(channel, sent, answered(1))
    await in_a_call(channel, sent, lambda call: call.on_no_answer(counted=None))

    assert [message.at for message in channel.messages.values()] == [then, then]


async def test_a_barred_lane_lets_nothing_more_through() -> None:
    channel = a_channel(Billing())

    await in_a_call(channel, lambda call: call.block("answer"))

    assert (channel.refused, channel.exhausted_limit) == ("answer", "answer")


def an_answer(message_id: str) -> MessageUsage:
    return MessageUsage(MessageId(message_id), MODEL, TokenUsage(), complete=True)
