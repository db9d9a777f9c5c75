"""What an agent gets of a response that breaks, and what is billed; the points of one message by event."""

import httpx
import pytest

from app.simulator.script import Reply, Text
from tests.breaking_provider import BREAKS, Break, a_breaking_provider, frames_of
from tests.integration.gateway_seam import gateway_to

FRAMES = frames_of(Reply([Text("one two")], message_id="msg_1", final_usage={"output_tokens": 20}))
START, LAST_NUMBERS, WHOLE = 1, len(FRAMES) - 1, len(FRAMES)


@pytest.mark.parametrize("ending", BREAKS)
@pytest.mark.parametrize("events", [LAST_NUMBERS, WHOLE], ids=["last numbers", "whole"])
async def test_a_complete_message_ends_in_order(events: int, ending: Break) -> None:
    async with a_breaking_provider() as provider, gateway_to(provider.url) as seam:
        provider.breaks(FRAMES[:events], ending)

        answer = await seam.send_message()

    assert answer.content.startswith(b"".join(FRAMES[:events]))
    assert [(each.message_id, each.complete, each.usage.output_tokens) for each in seam.noted.closed] == [
        ("msg_1", True, 20)
    ]


@pytest.mark.parametrize("ending", ["end", "error", "close", "reset"])
@pytest.mark.parametrize("events", range(START, LAST_NUMBERS))
async def test_any_other_end_of_a_message_is_a_connection_that_breaks(events: int, ending: Break) -> None:
    async with a_breaking_provider() as provider, gateway_to(provider.url) as seam:
        provider.breaks(FRAMES[:events], ending)

        with pytest.raises(httpx.RemoteProtocolError):
            await seam.send_message()
        await seam.gateway.close_channel(seam.channel)

    assert (seam.noted.last.message_id, seam.noted.last.complete) == ("msg_1", False)
