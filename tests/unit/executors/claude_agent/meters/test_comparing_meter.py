"""The SDK's numbers beside the gateway's: which are billed, and to whom."""

from dataclasses import replace

import structlog

from app.executors.claude_agent.meters.comparing_meter import ComparingMeter
from app.executors.claude_agent.meters.usage import MeteredMessage
from app.gateway.channel import Channel
from app.ids import MessageId
from app.usage.records import Meters, TokenUsage
from tests.factories import a_plan
from tests.unit.executors.claude_agent.frames import assistant, started
from tests.unit.gateway.calls import MODEL, Billing, a_channel, a_message


def of_sdk(number: int = 1, tokens: int = 10, *, final: bool = True) -> MeteredMessage:
    return MeteredMessage(MessageId(f"msg_{number}"), MODEL, TokenUsage(output_tokens=tokens), final)


def a_meter() -> tuple[ComparingMeter, Channel]:
    channel = a_channel(Billing())
    plan = a_plan()
    return ComparingMeter(plan, channel), channel


def counts_of(meter: ComparingMeter) -> Meters:
    return replace(meter.summary(), cost=None)


async def test_a_message_both_have_seen_is_billed_once_and_at_once() -> None:
    meter, channel = a_meter()
    channel.close_message(a_message())
    meter.observe(started("msg_1"))

    (fact,) = meter.feed(of_sdk())

    assert (fact.message_id, fact.origin, fact.basis) == ("msg_1", "assistant", "final")
    assert list(meter.finish()) == []
    assert counts_of(meter) == Meters(sdk=1, gateway=1, drift=0)


async def test_where_they_differ_the_gateway_counts_and_somebody_is_told() -> None:
    meter, channel = a_meter()
    channel.close_message(a_message(tokens=10))
    meter.observe(started("msg_1"))

    with structlog.testing.capture_logs() as logs:
        (fact,) = meter.feed(of_sdk(tokens=11))

    assert fact.usage.output_tokens == 10
    assert (meter.summary().drift, [entry["event"] for entry in logs]) == (1, ["meters.disagree"])


async def test_a_message_that_was_cut_is_billed_at_the_end_as_the_gateway_counted_it() -> None:
    meter, channel = a_meter()
    meter.observe(started("msg_1"))
    assert list(meter.feed(of_sdk(tokens=1, final=False))) == []
    channel.close_message(a_message(tokens=7, complete=False, output_estimated=True))

    (fact,) = meter.finish()

    assert (fact.usage.output_tokens, fact.basis, fact.output_estimated) == (7, "partial", True)
    assert meter.summary().drift == 0


async def test_a_call_the_sdk_never_showed_is_billed_as_hidden() -> None:
    meter, channel = a_meter()
    channel.close_message(a_message())

    (fact,) = meter.finish()

    assert (fact.origin, counts_of(meter)) == ("hidden", Meters(sdk=0, gateway=1, drift=0))


async def test_what_only_the_sdk_has_seen_is_an_alarm_and_not_charged() -> None:
    meter, _ = a_meter()
    meter.observe(started("msg_1"))

    with structlog.testing.capture_logs() as logs:
        assert [*meter.feed(of_sdk()), *meter.finish()] == []

    assert (meter.summary().drift, [entry["event"] for entry in logs]) == (1, ["meters.not_measured"])


async def test_a_subagents_message_names_the_call_that_started_it() -> None:
    meter, channel = a_meter()
    channel.close_message(a_message())
    channel.close_message(replace(a_message(2), duplicate_of=MessageId("msg_1")))
    meter.observe(assistant(parent_tool_use_id="toolu_1"))

    facts = list(meter.finish())

    assert {(fact.origin, fact.parent_tool_call_id) for fact in facts} == {("subagent", "toolu_1")}
