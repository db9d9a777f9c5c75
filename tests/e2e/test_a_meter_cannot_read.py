"""Answers whose usage is unusual or unreadable, behind the real CLI."""

from typing import Any

from app.simulator.script import Reply, Text, ToolUse, in_turn
from tests.e2e.stories import CLOCK, World, WorldOf, a_request


async def ended(world: World) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A run's end and its receipts."""
    events = await world.run(a_request())
    return events[-1].data, await world.receipts(events[0].data["runId"])


async def test_messages_without_an_id_are_charged(world_of: WorldOf) -> None:
    nameless: dict[str, Any] = {"message_id": "", "headers": {"request-id": ""}}
    world = await world_of(in_turn(Reply([ToolUse(CLOCK)], **nameless), Reply([Text("noon")], **nameless)))

    _, receipts = await ended(world)

    assert {each["usageUnitId"] for each in receipts} == {"unnamed-1", "unnamed-2"}
    assert [(each["inputTokens"], each["outputTokens"]) for each in receipts] == [(10, 20)] * 2
    assert all(each["chargedCredits"] > 0 for each in receipts)


async def test_a_run_whose_usage_cannot_be_read_makes_no_further_call(world_of: WorldOf) -> None:
    unreadable: dict[str, Any] = {"usage": {"input_tokens": 12.5, "output_tokens": 1}}
    world = await world_of(lambda _: Reply([ToolUse(CLOCK)], **unreadable))

    done, (receipt,) = await ended(world)

    assert done["finishReason"] == "error"
    assert len(world.simulator.sent) == 1
    assert receipt["basis"] == "unpriced"
    assert any(part.startswith("input_tokens=") for part in receipt["unpriced"])
    # What could be read is charged.
    assert (receipt["inputTokens"], receipt["outputTokens"]) == (0, 20)
    assert receipt["chargedCredits"] > 0
