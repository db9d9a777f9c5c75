"""A message whose stream breaks off and that the CLI requests again: clients are not left with both."""

from app.simulator.script import Hold, HttpError, Reply, Text, Thinking, in_turn
from tests.e2e.stories import ANALYST, Heard, OpenWorld, World, a_request

# The streams break off once their texts have reached the client.
CUT = Reply([Text("It is twelve")], cut_after=5, hold=Hold(4))
CUT_LATER = Reply([Thinking("hm"), Text("It is now about")], cut_after=9, hold=Hold(8))
ANSWER = Reply([Text("It is noon.")])


async def run_until_cut(world: World, cut: Reply) -> list[Heard]:
    """The events of a run whose first message breaks off."""
    events = []
    async for event in world.stream(a_request(graphId=ANALYST)):
        events.append(event)
        if event.type == "text_delta":
            assert cut.hold is not None
            cut.hold.until.set()
    return events


async def test_what_the_cli_drops_is_void(open_world: OpenWorld) -> None:
    overloaded = HttpError(529, "overloaded_error")
    async with open_world(in_turn(overloaded, CUT, ANSWER, CUT_LATER, ANSWER)) as world:
        first = await run_until_cut(world, CUT)
        second = await run_until_cut(world, CUT_LATER)

    for events, cut in ((first, CUT), (second, CUT_LATER)):
        (discarded,) = [event for event in events if event.type == "message_discarded"]
        assert discarded.data["messageId"] == cut.message_id
        shown: dict[str, str] = {}
        for event in events:
            message_id = event.data.get("messageId", "")
            if event.type == "text_delta":
                shown[message_id] = shown.get(message_id, "") + event.data["delta"]
            elif event.type == "message_discarded":
                assert shown.pop(message_id)
        assert "".join(shown.values()) == events[-2].data["content"] == "It is noon."
    retries = [event.data for event in first if event.data.get("phase") == "retrying"]
    assert retries[0]["attempt"] == 1
    assert 0 < retries[0]["inS"] < 5
    assert "simulated" not in str(first)
