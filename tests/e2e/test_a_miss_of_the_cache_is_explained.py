"""Receipts say what the provider should have found in its cache, why it did not, and what that cost."""

import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from app.simulator.script import ApiRequest, Reply, Text, ToolUse
from tests.e2e.parking import a_parking_world
from tests.e2e.stories import ASSISTANT, CLOCK, World, WorldOf

SONNET = "claude-sonnet-4-6"


@dataclass
class CachingModel:
    """A model with a prompt cache: a byte is a token, an entry is everything up to a mark."""

    entries: set[str] = field(default_factory=set)

    def __call__(self, request: ApiRequest) -> Reply:
        prefixes = _marked_prefixes(request.body)
        read = max((len(prefix) for prefix in prefixes if prefix in self.entries), default=0)
        written = len(prefixes[-1]) - read
        self.entries.update(prefixes)
        counts = {"cache_read_input_tokens": read, "cache_creation_input_tokens": written}
        blocks = [ToolUse(CLOCK)] if request.last_text == "what time is it?" else [Text("hello")]
        return Reply(blocks, usage={"input_tokens": 3, "output_tokens": 1, **counts})


def _marked_prefixes(body: dict[str, Any]) -> list[str]:
    """Everything up to each mark, and to each earlier block of the messages, without the marks."""
    text, prefixes, marked = json.dumps([body["model"], body.get("thinking"), body.get("tools")]), [], 0
    blocks = [*body["system"]]
    for message in body["messages"]:
        content = message["content"]
        blocks += [{"type": "text", "text": content}] if isinstance(content, str) else content
    for block in blocks:
        text += json.dumps({name: value for name, value in block.items() if name != "cache_control"})
        prefixes.append(text)
        marked = len(prefixes) if "cache_control" in block else marked
    return prefixes[:marked]


async def turn(world: World, prompt: str, *, system: str | None = None) -> dict[str, Any]:
    """The first receipt of a turn."""
    messages = [{"role": "user", "content": prompt}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    body = {"graphId": ASSISTANT, "model": SONNET, "stateKey": "chat-1", "messages": messages}
    events = await world.run(body)
    receipts = await world.receipts(events[0].data["runId"])
    first: dict[str, Any] = receipts[0]
    return first


async def test_a_conversation_that_only_grows_misses_nothing(world_of: WorldOf) -> None:
    world = await a_parking_world(world_of, CachingModel())

    receipts = [await turn(world, prompt) for prompt in ("hi", "what time is it?", "thanks")]

    assert [receipt["cacheMiss"] for receipt in receipts] == [None] * 3
    assert receipts[-1]["cacheReadTokens"] > 0
    total = (await world.http.get("/v1/usage")).json()["total"]
    assert total["cacheMissUsd"] == "0.0000000000"


async def test_a_changed_system_message_is_found_and_priced(world_of: WorldOf) -> None:
    world = await world_of(CachingModel())
    first = await turn(world, "hi", system="It is Monday.")
    second = await turn(world, "hi again", system="It is Tuesday.")

    miss = second["cacheMiss"]
    assert (miss["cause"], miss["part"].split("[")[0]) == ("changed", "system")
    assert miss["expectedTokens"] == first["cacheReadTokens"] + first["cacheWrite5mTokens"]
    assert miss["readTokens"] == second["cacheReadTokens"]
    missed = miss["expectedTokens"] - miss["readTokens"]
    # Written at $3.75 a million instead of read at $0.30.
    assert Decimal(second["cacheMissUsd"]) == missed * Decimal("3.45") / 1_000_000
    by_graph = (await world.http.get("/v1/usage", params={"groupBy": "graph"})).json()["items"]
    assert [(item["group"], item["cacheMissUsd"]) for item in by_graph] == [
        (ASSISTANT, second["cacheMissUsd"])
    ]
