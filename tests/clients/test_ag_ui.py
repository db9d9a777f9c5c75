"""The real `HttpAgent` of @ag-ui/client, which verifies every event, against a running server."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.simulator.script import (
    Answer,
    ApiRequest,
    Hold,
    HttpError,
    Reply,
    Responder,
    Text,
    Thinking,
    ToolUse,
    in_turn,
    text_of,
)
from tests.clients.node import node
from tests.e2e import test_a_graph_gives_work_to_subagents as delegation
from tests.e2e.office import MAIL, MAILER, office, settings
from tests.e2e.stories import ANALYST, ASSISTANT, CLOCK, KEY, World, WorldOf

ODD = "one two\u2028 three\U0001f600 \x85 \\u2028 \"quoted\"\r\n\r\ndata: four\n\n five"
MAIL_TO_BOB = {"to": "bob@example.org", "text": "Hello Bob"}
MAIL_TO_ALICE = {"to": "alice@example.org", "text": "Hello Alice"}


def by_prompt(**scripts: Responder) -> Responder:
    """Each script answers the runs whose prompt begins with its name."""

    def respond(request: ApiRequest) -> Any:
        texts = [text_of(m["content"]) for m in request.messages if m["role"] == "user"]
        prompt = next(text for text in reversed(texts) if text.partition(" ")[0] in scripts)
        return scripts[prompt.partition(" ")[0]](request)

    return respond


async def played(world: World, *scenes: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """For each step of each scene what the client heard; it must not have complained."""
    given = json.dumps({"url": world.url, "key": KEY, "scenes": scenes})
    printed = json.loads(await node("ag_ui.mjs", given=given))
    assert printed["complaints"] == []
    heard: list[list[dict[str, Any]]] = printed["scenes"]
    return heard


def a_scene(*steps: dict[str, Any], graph: str = ASSISTANT, thread: str = "t-1", **fields: Any) -> dict[str, Any]:
    return {"graph": graph, "threadId": thread, "steps": steps, **fields}


def kinds(step: dict[str, Any]) -> list[str]:
    return [event["type"] for event in step["events"]]


def of(step: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [event for event in step["events"] if event["type"] == kind]


async def test_texts_arrive_as_they_are(world_of: WorldOf) -> None:
    long = "x" * 1_000_000
    world = await world_of(
        by_prompt(odd=in_turn(Reply([Text(ODD)])), long=in_turn(Reply([Text(f"{long} end")])))
    )

    (odd,), (line,) = await played(
        world, a_scene({"say": "odd"}), a_scene({"say": "long"}, thread="t-2")
    )

    assert odd["messages"][-1]["content"] == ODD
    assert odd["result"] == {"content": ODD}
    assert kinds(odd)[0] == "RUN_STARTED"
    (end,) = of(odd, "RUN_FINISHED")
    assert end["outcome"] == {"type": "success"}
    assert end["usage"] == [{"inputTokens": 10, "outputTokens": 20, "totalTokens": 30}]
    assert line["messages"][-1]["content"] == f"{long} end"
