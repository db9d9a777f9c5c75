from typing import Any, TypeGuard

import pytest
from claude_agent_sdk import Message, StreamEvent
from hypothesis import given
from hypothesis import strategies as st

from app.executors.claude_agent.meters.usage import MeteredMessage, UsageFold
from app.usage.provider import merge_usage, token_usage
from app.usage.records import TokenUsage
from tests.unit.executors.claude_agent.frames import assistant, ended, started, stopped, text, user


def fold(*frames: Message) -> list[MeteredMessage]:
    usage = UsageFold()
    return [*(done for frame in frames for done in usage.feed(frame)), *usage.finish()]


def test_the_last_number_counts_not_the_first() -> None:
    (message,) = fold(
        started(input_tokens=10, output_tokens=1),
        assistant(usage={"input_tokens": 10, "output_tokens": 1}),
        ended(output_tokens=250),
        stopped(),
    )

    assert message.usage == TokenUsage(input_tokens=10, output_tokens=250)
    assert message.final


def test_every_block_repeats_the_message_and_is_counted_once() -> None:
    block = assistant(usage={"input_tokens": 10, "output_tokens": 1})

    found = fold(started(input_tokens=10), block, block, block, ended(output_tokens=5), stopped(), block)

    assert [message.message_id for message in found] == ["msg_1"]


def test_a_tool_result_between_does_not_close_the_message() -> None:
    found = fold(started(input_tokens=10), user(), ended("tool_use", output_tokens=7), stopped())

    assert [(message.usage.output_tokens, message.final) for message in found] == [(7, True)]


@pytest.mark.parametrize(
    "tail",
    [(), (stopped(),), (ended(None, output_tokens=1), stopped()), (started("msg_2"),)],
    ids=["nothing more", "no delta", "the CLI's own delta", "another message"],
)
def test_a_message_cut_off_is_partial_and_counts_what_arrived(tail: tuple[Message, ...]) -> None:
    message, *_ = fold(started(input_tokens=10, output_tokens=1), text("x" * 400), *tail)

    assert not message.final
    assert message.usage == TokenUsage(input_tokens=10, output_tokens=100)


def test_a_cut_message_never_counts_less_than_its_start() -> None:
    (message,) = fold(started(output_tokens=9), text("hi"))

    assert message.usage.output_tokens == 9


def test_a_body_that_was_not_streamed_is_believed() -> None:
    (message,) = fold(assistant(stop_reason="end_turn", usage={"input_tokens": 3, "output_tokens": 4}))

    assert (message.final, message.usage) == (True, TokenUsage(input_tokens=3, output_tokens=4))


def test_the_clis_own_messages_are_never_billed() -> None:
    synthetic = assistant(
        model="<synthetic>", message_id="7f1c", stop_reason="stop_sequence", usage={"output_tokens": 5}
    )

    assert fold(synthetic) == []


def test_lanes_of_subagents_do_not_mix() -> None:
    found = fold(
        started("msg_main", input_tokens=1),
        started("msg_sub", parent="toolu_1", input_tokens=2),
        ended(output_tokens=3),
    )

    assert [(m.message_id, m.parent_tool_call_id, m.final) for m in found] == [
        ("msg_main", None, True),
        ("msg_sub", "toolu_1", False),
    ]


@pytest.mark.parametrize(
    ("start", "delta", "expected"),
    [
        ({"input_tokens": 10}, {"input_tokens": 0}, {"input_tokens": 10}),
        ({"input_tokens": 10}, {"input_tokens": None}, {"input_tokens": 10}),
        ({"input_tokens": 10}, {"input_tokens": 8}, {"input_tokens": 8}),
        ({"output_tokens": 5}, {"output_tokens": 0}, {"output_tokens": 0}),
        ({"output_tokens": 5}, {"output_tokens": None}, {"output_tokens": 5}),
        (
            {"cache_creation": {"ephemeral_5m_input_tokens": 4}},
            {"cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}},
            {"cache_creation": {"ephemeral_5m_input_tokens": 4}},
        ),
        (
            {"cache_creation": {"ephemeral_1h_input_tokens": 4}},
            {"cache_creation": {"ephemeral_1h_input_tokens": 9}},
            {"cache_creation": {"ephemeral_1h_input_tokens": 9}},
        ),
        ({}, {"server_tool_use": {"web_fetch_requests": 2}}, {"server_tool_use": {"web_fetch_requests": 2}}),
        (
            {"server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 1}},
            {"server_tool_use": {"web_search_requests": None, "web_fetch_requests": 3}},
            {"server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 3}},
        ),
    ],
)
def test_a_delta_is_merged_as_the_api_means_it(
    start: dict[str, Any], delta: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert merge_usage(start, delta) == expected


@pytest.mark.parametrize(
    ("raw", "written"),
    [
        ({"cache_creation_input_tokens": 10}, (10, 0)),
        ({"cache_creation": {"ephemeral_1h_input_tokens": 4}}, (0, 4)),
        ({"cache_creation_input_tokens": 10, "cache_creation": {"ephemeral_1h_input_tokens": 4}}, (6, 4)),
        (
            {
                "cache_creation_input_tokens": 10,
                "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4},
            },
            (6, 4),
        ),
        ({"cache_creation": None, "cache_creation_input_tokens": None}, (0, 0)),
    ],
)
def test_cache_writes_beyond_the_breakdown_are_five_minute_ones(
    raw: dict[str, Any], written: tuple[int, int]
) -> None:
    usage = token_usage(raw)

    assert (usage.cache_write_5m_tokens, usage.cache_write_1h_tokens) == written


FRAMES = st.sampled_from(
    [
        started("msg_1"),
        started("msg_2"),
        text("abc"),
        ended(output_tokens=3),
        ended(None),
        stopped(),
        assistant(),
        user(),
    ]
)


@given(st.lists(FRAMES, max_size=30))
def test_no_order_of_frames_states_a_message_twice(frames: list[Message]) -> None:
    reported = [message.message_id for message in fold(*frames)]

    assert len(reported) == len(set(reported))
    begun = {frame.event["message"]["id"] for frame in frames if _begins(frame)}
    assert set(reported) == begun


def _begins(frame: Message) -> TypeGuard[StreamEvent]:
    return isinstance(frame, StreamEvent) and frame.event["type"] == "message_start"
