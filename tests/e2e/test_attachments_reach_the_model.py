"""PDFs, texts and images: what the model gets of them, and what the conversation shows."""

import base64
from pathlib import Path
from typing import Any

from app.simulator.script import ApiRequest, Reply, Text
from tests.e2e.agents import every_agent
from tests.e2e.stories import OpenWorld, World, a_request

PDF = base64.b64encode(b"%PDF-1.7\n1 0 obj<<>>endobj\n%%EOF\n").decode()
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
OFFER = {"type": "document", "mediaType": "application/pdf", "data": PDF, "title": "Offer"}
NOTES = {"type": "document", "text": "Grüße,\nAda", "title": "notes.txt"}
DOT = {"type": "image", "mediaType": "image/png", "data": PIXEL}
AWAY = [
    {"type": "image", "url": "https://example.org/a.png"},
    {"type": "document", "url": "https://example.org/a.pdf?x=1", "title": "Far"},
]
SHOWN = [
    {"type": "document", "mediaType": "application/pdf", "title": "Offer", "size": 33, "url": None},
    {"type": "document", "mediaType": "text/plain", "title": "notes.txt", "size": 12, "url": None},
    {"type": "image", "mediaType": "image/png", "title": None, "size": 70, "url": None},
    {"type": "image", "mediaType": None, "title": None, "size": None, "url": AWAY[0]["url"]},
    {
        "type": "document",
        "mediaType": "application/pdf",
        "title": "Far",
        "size": None,
        "url": AWAY[1]["url"],
    },
]


def attached(request: ApiRequest) -> list[dict[str, Any]]:
    """The attachments in a request, without the marks of the cache."""
    return [
        {name: value for name, value in block.items() if name != "cache_control"}
        for message in request.messages
        for block in message["content"]
        if not isinstance(block, str) and block["type"] in ("image", "document")
    ]


async def turn(world: World, *messages: Any) -> dict[str, Any]:
    posted = [{"role": "user", "content": content} for content in messages]
    answer = await world.http.post("/v1/runs/wait", json=a_request(messages=posted, stateKey="chat"))
    found: dict[str, Any] = answer.json()
    return found


@every_agent
async def test_they_arrive_unchanged_and_stay(open_world: OpenWorld, tmp_path: Path) -> None:
    allowed = {"RUNTALLY_ATTACHMENT_URLS": True, "RUNTALLY_IDLE_PROCESSES": 0}
    async with open_world(lambda _: Reply([Text("Seen")]), **allowed) as world:
        first = await turn(world, [{"type": "text", "text": "An old dot"}, DOT], [OFFER, NOTES, DOT, *AWAY])
        second = await turn(world, "and again?")
        history = (await world.http.get("/v1/sessions/chat")).json()["messages"]

    assert (first["content"], second["content"]) == ("Seen", "Seen")
    one, two = (attached(request) for request in world.simulator.requests)
    assert [block["source"]["type"] for block in one] == ["base64", "base64", "text", "base64", "url", "url"]
    assert one[1] == {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
        "title": "Offer",
    }
    assert one[2]["source"]["data"] == NOTES["text"]
    assert one[5] == {"type": "document", "source": {"type": "url", "url": AWAY[1]["url"]}, "title": "Far"}
    assert two == one
    # The CLI names the file in which it has stored an image.
    assert not [request for request in world.simulator.requests if tmp_path.name in str(request.body)]
    questions = [message for message in history if message["type"] == "user_message"]
    assert [question.get("attachments", []) for question in questions if question["at"]] == [SHOWN, []]
    assert [
        each for question in questions if not question["at"] for each in question.get("attachments", ())
    ] == [SHOWN[2]]
