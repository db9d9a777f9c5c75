"""Images and documents that a person adds to a message reach the model."""

import base64

import pytest
from playwright.async_api import FilePayload, expect

from app.simulator.script import Reply, Text, blocks_of, in_turn
from tests.frontends.frontend import (
    ASSISTANT_UI_AG_UI,
    ASSISTANT_UI_AI_SDK,
    COPILOT_KIT,
    USE_CHAT,
    USE_CHAT_5,
    Client,
    Frontends,
    name_of,
)

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.long]

_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
PNG = FilePayload(name="dot.png", mimeType="image/png", buffer=base64.b64decode(_PIXEL))
PDF = FilePayload(
    name="page.pdf", mimeType="application/pdf", buffer=b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\n%%EOF\n"
)
BROKEN = FilePayload(name="broken.pdf", mimeType="application/pdf", buffer=b"This is no PDF.")

WITH_IMAGES = [USE_CHAT_5, ASSISTANT_UI_AG_UI, COPILOT_KIT]
WITH_DOCUMENTS = [ASSISTANT_UI_AI_SDK]


@pytest.mark.parametrize("client", WITH_IMAGES, ids=name_of)
async def test_the_model_sees_an_image_and_still_has_it_later(frontends: Frontends, client: Client) -> None:
    script = in_turn(Reply([Text("A dot.")]), Reply([Text("White.")]))
    async with frontends.visit(client, script) as frontend:
        await frontend.attach(PNG)
        await frontend.send("What is this?")
        await frontend.shows("What is this?", "A dot.")
        await frontend.send("Its colour?")
        await frontend.shows("What is this?", "A dot.", "Its colour?", "White.")

        for request in frontend.received.requests:
            (image,) = blocks_of(request.messages[0], "image")
            assert image["source"] == {"type": "base64", "media_type": "image/png", "data": _PIXEL}
        assert await frontend.billed() == frontend.received.tokens == (20, 40)


@pytest.mark.parametrize("client", WITH_DOCUMENTS, ids=name_of)
async def test_the_model_sees_a_pdf(frontends: Frontends, client: Client) -> None:
    async with frontends.visit(client, in_turn(Reply([Text("An empty page.")]))) as frontend:
        await frontend.attach(PDF)
        await frontend.send("Sum it up.")
        await expect(frontend.page.locator(client.texts).last).to_have_text("An empty page.")

        (document,) = blocks_of(frontend.received.requests[0].messages[0], "document")
        assert base64.b64decode(document["source"]["data"]) == PDF["buffer"]
        assert document["source"]["media_type"] == "application/pdf"
        assert await frontend.billed() == frontend.received.tokens == (10, 20)


async def test_a_refused_attachment_does_not_end_the_conversation(frontends: Frontends) -> None:
    script = in_turn(Reply([Text("I have the text only.")]))
    async with frontends.visit(USE_CHAT, script) as frontend:
        await frontend.attach(BROKEN)
        await frontend.send("Sum it up.")
        await frontend.page.locator(USE_CHAT.errors).wait_for()
        await frontend.press("Close")
        await frontend.send("Never mind the file.")
        await frontend.shows("Sum it up.", "Never mind the file.", "I have the text only.")
        assert await frontend.billed() == (10, 20)
