"""Conversations are renamed, pinned, archived and exported."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest_asyncio

from app.runs.conversations.titles import MAX_TITLE_CHARS
from tests.e2e.agents import without_cli
from tests.e2e.stories import World, WorldOf, a_client
from tests.integration.statements import execute
from tests.integration.test_conversation_search import ask, listed
from tests.integration.test_conversation_shares import CHAT, SCOPES, model

pytestmark = without_cli


@pytest_asyncio.fixture
async def world(world_of: WorldOf) -> World:
    return await world_of(model)


@pytest_asyncio.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    _, secret = await world.services.accounts.create_key("acme", SCOPES)
    async with a_client(world.url, secret) as client:
        yield client


async def change(client: httpx.AsyncClient, **changed: Any) -> Any:
    return (await client.patch(CHAT, json=changed)).raise_for_status().json()


async def test_a_conversation_is_renamed_pinned_and_archived(client: httpx.AsyncClient) -> None:
    for chat in ("other", "chat"):
        await ask(client, "heron", stateKey=chat)
    before = (await client.get(CHAT)).json()

    changed = await change(client, title="Birds 日本", pinned=True)

    assert (changed["title"], changed["pinned"], changed["archived"]) == ("Birds 日本", True, False)
    # Its place in the list is where it was last used.
    assert changed["updatedAt"] == before["updatedAt"]
    assert await listed(client, pinned=True) == ["chat"]
    assert await listed(client, pinned=False) == ["other"]
    assert await listed(client, q="birds") == ["chat"]
    assert (await change(client, pinned=False, archived=True))["title"] == "Birds 日本"
    assert await listed(client, archived=False) == ["other"]
    assert await listed(client, archived=True) == ["chat"]
    assert await listed(client) == ["chat", "other"]
    assert await change(client) == await change(client, archived=True)

    await ask(client, "again", stateKey="chat")

    # Who uses it wants to see it; its title is no question's any more.
    assert await listed(client, archived=False) == ["chat", "other"]
    assert (await client.get(CHAT)).json()["title"] == "Birds 日本"
    (await client.post(f"{CHAT}/fork", json={"stateKey": "copy"})).raise_for_status()
    await change(client, pinned=True)
    assert await listed(client, pinned=True) == ["chat"]


WRONG: list[dict[str, Any]] = [
    *({"title": ""}, {"title": " \n"}, {"title": None}, {"title": "x" * (MAX_TITLE_CHARS + 1)}),
    *({"title": "a\x00b"}, {"title": 1}, {"pinned": None}, {"pinned": "true"}, {"archived": 1}),
    {"stateKey": "mine"},
]


async def test_a_change_that_cannot_be_made_is_refused_by_name(client: httpx.AsyncClient) -> None:
    await ask(client, "heron", stateKey="chat")

    for changed in WRONG:
        answer = await client.patch(CHAT, json=changed)

        assert answer.status_code == 422, changed
        assert [error["field"] for error in answer.json()["errors"]] == list(changed)
    assert (await client.get(CHAT)).json()["title"] == "heron"


async def test_an_export_has_all_messages(client: httpx.AsyncClient) -> None:
    await ask(client, "What time is it?", stateKey="chat")
    await change(client, title="Clocks\nand watches")
    stored = (await client.get(CHAT)).json()

    document = await client.get(f"{CHAT}/export", params={"format": "json"})
    text = await client.get(f"{CHAT}/export")

    assert document.json() == stored
    assert document.headers["content-disposition"] == 'attachment; filename="conversation.json"'
    assert text.headers["content-type"] == "text/markdown; charset=utf-8"
    lines = text.text.splitlines()
    assert lines[0] == "# Clocks and watches"
    assert [line.partition(" (")[0] for line in lines if line.startswith("## ")] == [
        "## User",
        "## Assistant",
    ]
    assert "**Tool call:** `core__get_current_time`" in lines
    assert '  "timezone": "Asia/Tokyo"' in lines
    assert lines[-1] == "The answer is **albatross**."


async def test_a_long_export_is_one_document_of_one_branch(client: httpx.AsyncClient) -> None:
    history = [
        {"role": role, "content": f"{role} {number}"}
        for number in range(700)
        for role in ("user", "assistant")
    ]
    last = {"role": "user", "content": "heron"}
    await ask(client, "", messages=[*history, last], stateKey="chat", runId="first")
    await ask(client, "crane", stateKey="chat", forkFrom="first")
    first, second = (await client.get(f"{CHAT}/branches")).json()["items"]

    document = (await client.get(f"{CHAT}/export", params={"format": "json"})).json()
    of_first = {"format": "json", "branch": first["branchId"]}
    other = (await client.get(f"{CHAT}/export", params=of_first)).json()
    text = (await client.get(f"{CHAT}/export")).text

    assert second["isCurrent"]
    contents = [message["content"] for message in document["messages"] if "content" in message]
    others = [message["content"] for message in other["messages"] if "content" in message]
    assert others[-2:] == ["heron", "The answer is **albatross**."]
    assert len(others) == len(history) + 2
    assert contents[-2:] == ["crane", "The answer is **albatross**."]
    assert text.count("\n## User") == text.count("\n## Assistant") == len(contents) // 2


async def test_fences_in_a_result_do_not_end_its_block(client: httpx.AsyncClient, world: World) -> None:
    await ask(client, "What time is it?", stateKey="chat")
    await execute(
        world.services.database,
        """UPDATE session_entries SET entry = replace(entry::text, 'Asia/Tokyo', 'a```\\n# b````')::json""",
    )

    lines = (await client.get(f"{CHAT}/export")).text.splitlines()

    assert lines.count("`````json") == lines.count("`````") == 1
