"""Tools that run in the page: the model calls them, the page answers, the model goes on."""

import json

import pytest
from playwright.async_api import expect

from app.simulator.script import ApiRequest, Reply, Responder, Text, ToolUse
from tests.frontends.frontend import (
    AG_UI,
    ASSISTANT_UI_AG_UI,
    ASSISTANT_UI_AI_SDK,
    CLIENT_TOOLS,
    COPILOT_KIT,
    USE_CHAT_TOOLS,
    USE_CHAT_TOOLS_5,
    Client,
    Frontends,
    name_of,
)

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.long]

CLIENTS = [USE_CHAT_TOOLS, USE_CHAT_TOOLS_5, ASSISTANT_UI_AI_SDK, *AG_UI]


def calls(tool: str, answer: str, **arguments: object) -> Responder:
    """A model that calls this tool of the page, under the name it was offered, and then answers."""

    def respond(request: ApiRequest) -> Reply:
        if request.tool_results:
            return Reply([Text(answer)])
        (name,) = [name for name in request.tool_names if name.endswith(tool)]
        return Reply([ToolUse(name, arguments)])

    return respond


@pytest.mark.parametrize("client", CLIENTS, ids=name_of)
async def test_the_model_receives_the_result_of_a_tool_of_the_page(
    frontends: Frontends, client: Client
) -> None:
    script = calls("getLocation", "You are in Lisbon.", exact=True)
    async with frontends.visit(client, script, graph=CLIENT_TOOLS, location="yes") as frontend:
        await frontend.send("Where am I?")
        await frontend.shows("Where am I?", "You are in Lisbon.")
        await frontend.shows_tools("Lisbon")

        first, second = frontend.received.requests
        (offered,) = [tool for tool in first.body["tools"] if tool["name"].endswith("getLocation")]
        assert offered["description"] == "Where the person is."
        assert offered["input_schema"]["properties"].keys() == {"exact"}
        (result,) = second.tool_results
        assert "Lisbon" in json.dumps(result["content"])
        assert await frontend.billed() == frontend.received.tokens == (20, 40)


@pytest.mark.parametrize("client", [ASSISTANT_UI_AI_SDK, ASSISTANT_UI_AG_UI, COPILOT_KIT], ids=name_of)
async def test_a_person_answers_a_tool(frontends: Frontends, client: Client) -> None:
    script = calls("confirm", "So be it.", question="Shall I?")
    async with frontends.visit(client, script, graph=CLIENT_TOOLS, confirm="yes") as frontend:
        await frontend.send("Do it.")
        await frontend.shows_tools("Shall I?")
        assert len(frontend.received.requests) == 1
        await frontend.press("Yes")
        await frontend.shows("Do it.", "So be it.")
        (result,) = frontend.received.requests[-1].tool_results
        assert "yes" in json.dumps(result["content"])
        assert await frontend.billed() == frontend.received.tokens == (20, 40)


@pytest.mark.parametrize("client", [COPILOT_KIT], ids=name_of)
async def test_a_graph_without_client_tools_answers_all_the_same(
    frontends: Frontends, client: Client
) -> None:
    def respond(request: ApiRequest) -> Reply:
        assert not [name for name in request.tool_names if "getLocation" in name]
        return Reply([Text("Hello.")])

    async with frontends.visit(client, respond, location="yes", confirm="yes") as frontend:
        await frontend.send("Hello?")
        await frontend.shows("Hello?", "Hello.")
        assert await frontend.billed() == (10, 20)


async def test_suggestions_of_copilotkit_appear_beside_a_conversation(frontends: Frontends) -> None:
    suggestion = {"title": "Tea?", "message": "Is it time for tea?"}

    def respond(request: ApiRequest) -> Reply:
        names = [name for name in request.tool_names if name.endswith("copilotkitSuggest")]
        if names:
            return Reply([ToolUse(names[0], {"suggestions": [suggestion]})])
        return Reply([Text("Ten to twelve.")])

    async with frontends.visit(COPILOT_KIT, respond, graph=CLIENT_TOOLS, suggestions="yes") as frontend:
        await frontend.send("What time is it?")
        await frontend.shows("What time is it?", "Ten to twelve.")
        await expect(frontend.page.get_by_role("button", name="Tea?")).to_be_visible()
