"""The Stop of an AI SDK chat closes its stream: the run goes on, and the model gets what the page has."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

from app.simulator.script import Answer, Hold, Reply, Text
from tests.e2e.agents import every_agent
from tests.e2e.parking import a_parking_world
from tests.e2e.stories import WorldOf
from tests.e2e.test_a_chat_of_the_ai_sdk import a_post, conversation_of, parts_of, says, text_of_ui


@every_agent
async def test_the_model_gets_an_answer_as_far_as_its_page_has_read_it(world_of: WorldOf, agent: str) -> None:
    hold = Hold(index=5)
    replies: Iterator[Answer] = iter(
        [
            *(Reply([Text("Hello.")]), Reply([Text("one two three")], hold=hold)),
            *(Reply([Text(text)]) for text in ("Four?", "Five.", "All of it.")),
        ]
    )
    world = await a_parking_world(world_of, lambda _: next(replies), agent=agent)
    chat = f"/v1/ai-sdk/{agent}:assistant/chat"

    async def post(*view: dict[str, Any]) -> dict[str, Any]:
        """Post what a page shows; its answer."""
        parts = parts_of(await world.http.post(chat, json=a_post(*view)))
        text = "".join(part["delta"] for part in parts if part["type"] == "text-delta")
        return says(text, parts[0]["messageId"], "assistant")

    page = [says("hi", "u1")]
    page += [await post(*page), says("Count.", "u2")]
    async with world.http.stream("POST", chat, json=a_post(*page)) as stream:
        await hold.reached.wait()
        first = await anext(each async for each in stream.aiter_lines() if '"start"' in each)
        start = json.loads(first.removeprefix("data: "))
    page += [says("one ", start["messageId"], "assistant"), says("And on.", "u3")]
    going_on = asyncio.create_task(post(*page))
    await world.accepted(runs=3)
    hold.until.set()
    page += [await going_on, says("And then?", "u4")]
    page.append(await post(*page))
    stored = (await world.http.get(f"{chat}/chat-1/messages")).json()
    other_device = [*page[:3], says("one two three", page[3]["id"], "assistant"), says("So?", "u5")]
    await post(*other_device)

    def shown(view: list[dict[str, Any]]) -> list[tuple[str, str]]:
        return [(each["role"], text_of_ui(each)) for each in view]

    heard = [conversation_of(request) for request in world.simulator.requests]
    assert heard[2:] == [shown(page[:5]), shown(page[:7]), shown(other_device)]
    assert shown(stored) == shown(page)
    run = (await world.http.get(f"/v1/runs/{page[3]['id']}")).json()
    assert (run["status"], run["final"]["content"]) == ("succeeded", "one two three")
