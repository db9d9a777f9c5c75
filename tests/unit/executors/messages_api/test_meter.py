from dataclasses import replace
from typing import Any

from app.executors.api_format.stream import DeltaMapper
from app.executors.messages_api.message import MessageFold
from app.executors.messages_api.meter import LoopMeter
from app.simulator import wire
from app.simulator.script import Reply, Text
from tests.factories import a_plan
from tests.unit.gateway.calls import Billing, a_channel, a_message


def seen(
    message_id: str = "msg_1", tokens: int = 10, *, until: int | None = None, block: Any = None
) -> MessageFold:
    """A message up to an event; then perhaps the beginning of another block."""
    message = MessageFold(DeltaMapper(show_thinking=False, tool_id_of=str, hidden_tool=""))
    usage = {"input_tokens": 0, "output_tokens": tokens}
    reply = Reply([Text("hi")], usage={}, final_usage=usage, message_id=message_id)
    for event in wire.events(reply, model="m")[:until]:
        list(message.feed(event))
    if block is not None:
        list(message.feed({"type": "content_block_start", "index": 9, "content_block": block}))
    return message


async def test_each_message_is_reported_once_and_open_ones_at_the_end() -> None:
    meter = LoopMeter(a_plan(), a_channel(Billing()))
    meter.start(seen())
    meter.channel.close_message(a_message(1))
    meter.channel.close_message(a_message(2, complete=False))

    assert [fact.message_id for fact in meter.report()] == ["msg_1"]
    assert [(fact.message_id, fact.basis) for fact in meter.report(ended=True)] == [("msg_2", "partial")]
    assert list(meter.report(ended=True)) == []
    assert (meter.summary().sdk, meter.summary().gateway, meter.summary().drift) == (1, 2, 0)


async def test_numbers_that_differ_are_counted() -> None:
    meter = LoopMeter(a_plan(), a_channel(Billing()))
    meter.start(seen(tokens=11))
    meter.channel.close_message(a_message(1, tokens=10))

    assert [fact.usage.output_tokens for fact in meter.report()] == [10]
    assert meter.summary().drift == 1


async def test_a_summary_is_billed_as_hidden_also_if_it_breaks_off() -> None:
    meter = LoopMeter(a_plan(), a_channel(Billing()))
    meter.start(seen("msg_1"))
    meter.start(seen("msg_2", until=1, block={"type": "compaction"}))
    meter.channel.close_message(replace(a_message(1), stop_reason="compaction"))
    meter.channel.close_message(a_message(2, complete=False))
    meter.channel.close_message(a_message(3))

    assert [fact.origin for fact in meter.report(ended=True)] == ["hidden", "hidden", "assistant"]
