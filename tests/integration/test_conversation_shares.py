"""Conversations are shared by links."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest_asyncio

from app.runs.conversations.sharing.service import MOST_SHARES
from app.simulator.script import ApiRequest, Reply, Text, ToolUse
from tests.e2e.agents import without_cli
from tests.e2e.stories import CLOCK, World, WorldOf, a_client
from tests.e2e.test_an_end_user_is_erased import erased
from tests.integration.statements import execute, scalar
from tests.integration.test_conversation_search import ask

pytestmark = without_cli

CHAT = "/v1/sessions/chat"
SCOPES = ("runs:write", "runs:read", "runs:share", "keys:write")
SHARED_FIELDS = {"title", "sharedAt", "expiresAt", "messages", "nextCursor"}


def model(request: ApiRequest) -> Reply:
    if "time" in request.last_text and not request.tool_results:
        return Reply((Text("Let me look."), ToolUse(CLOCK, {"timezone": "Asia/Tokyo"})))
    return Reply((Text("The answer is **albatross**."),))


@pytest_asyncio.fixture
async def world(world_of: WorldOf) -> World:
    return await world_of(model)


@pytest_asyncio.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    _, secret = await world.services.accounts.create_key("acme", SCOPES)
    async with a_client(world.url, secret) as client:
        yield client


async def share(client: httpx.AsyncClient, **asked: Any) -> Any:
    return (await client.post(f"{CHAT}/shares", json=asked)).raise_for_status().json()


async def read(client: httpx.AsyncClient, token: str, **query: Any) -> httpx.Response:
    """What a reader gets with the link and no key."""
    headers = {"Authorization": f"Bearer {token}"}
    return await client.get("/v1/shared", headers=headers, params=query)


async def texts(client: httpx.AsyncClient, token: str) -> list[str]:
    document = (await read(client, token)).raise_for_status().json()
    return [each.get("content") or each["toolName"] for each in document["messages"]]


async def test_keys_change_only_what_they_may_read(world: World, client: httpx.AsyncClient) -> None:
    await ask(client, "heron", stateKey="chat")
    accounts = world.services.accounts
    _, writer = await accounts.create_key("acme", ["runs:write"])
    _, reader = await accounts.create_key("acme", ["runs:read"])
    _, other = await accounts.create_key("other", SCOPES)
    statuses = []
    for secret in (writer, reader, other):
        async with a_client(world.url, secret) as http:
            answers = [
                await http.patch(CHAT, json={"title": "mine"}),
                await http.get(f"{CHAT}/export"),
                await http.post(f"{CHAT}/shares", json={}),
                await http.get(f"{CHAT}/shares"),
            ]
            statuses.append([answer.status_code for answer in answers])

    assert statuses == [[403, 403, 403, 403], [403, 200, 403, 200], [404, 404, 404, 404]]
    assert (await client.get(CHAT)).json()["title"] == "heron"


async def test_a_link_shows_what_was_said_until_it_was_made(client: httpx.AsyncClient) -> None:
    await ask(client, "What time is it?", stateKey="chat", runId="first")

    created = await share(client)
    await ask(client, "A secret", stateKey="chat")

    assert created["url"].endswith(f"/shared#{created['token']}")
    answer = (await read(client, created["token"])).raise_for_status()
    document = answer.json()
    assert document.keys() == SHARED_FIELDS
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-robots-tag"] == "noindex"
    assert [each["content"] for each in document["messages"]] == [
        *("What time is it?", "Let me look.", "The answer is **albatross**.")
    ]
    assert document["nextCursor"] is None
    # Neither what tools were called with, nor what it has cost.
    assert not {"Tokyo", "timezone", "cost", "graphId"} & set(json.dumps(document).replace('"', " ").split())
    (shown,) = (await client.get(f"{CHAT}/shares")).json()["items"]
    assert shown == {name: value for name, value in created.items() if name not in {"url", "token"}}


async def test_a_link_shows_the_branch_on_which_it_was_made(client: httpx.AsyncClient) -> None:
    await ask(client, "heron", stateKey="chat", runId="first")
    earlier = (await share(client))["token"]
    await ask(client, "crane", stateKey="chat", forkFrom="first")
    later = (await share(client))["token"]
    await ask(client, "stork", stateKey="chat", forkFrom="first")

    answer = "The answer is **albatross**."
    assert await texts(client, earlier) == ["heron", answer]
    assert await texts(client, later) == ["crane", answer]


async def test_tool_calls_are_shown_where_it_was_asked(client: httpx.AsyncClient) -> None:
    await ask(client, "What time is it?", stateKey="chat")

    token = (await share(client, withToolCalls=True))["token"]

    document = (await read(client, token)).json()
    (call,) = [each for each in document["messages"] if each["type"] == "tool_call"]
    assert (call["toolName"], call["args"]) == ("core__get_current_time", {"timezone": "Asia/Tokyo"})
    assert call["result"]["timezone"] == "Asia/Tokyo"


async def test_addresses_of_attachments_are_not_shown(world_of: WorldOf) -> None:
    world = await world_of(model, RUNTALLY_ATTACHMENT_URLS=True)
    map_ = {"type": "document", "url": "https://example.org/signed.pdf?secret", "title": "A map"}
    content = [{"type": "text", "text": "Look"}, map_]
    await ask(world.http, "", messages=[{"role": "user", "content": content}], stateKey="chat")

    answer = await read(world.http, (await share(world.http))["token"])

    (attached,) = answer.json()["messages"][0]["attachments"]
    assert (attached["title"], attached["url"]) == ("A map", None)
    assert "secret" not in answer.text


async def test_a_long_conversation_is_read_in_pages(client: httpx.AsyncClient) -> None:
    history = [
        {"role": role, "content": f"{role} {number}"}
        for number in range(150)
        for role in ("user", "assistant")
    ]
    await ask(client, "", messages=[*history, {"role": "user", "content": "heron"}], stateKey="chat")
    token = (await share(client))["token"]
    await ask(client, "A secret", stateKey="chat")

    found: list[str] = []
    cursor: str | None = None
    while True:
        document = (await read(client, token, **({} if cursor is None else {"cursor": cursor}))).json()
        found += [each["content"] for each in document["messages"]]
        if (cursor := document["nextCursor"]) is None:
            break

    assert found == [*(each["content"] for each in history), "heron", "The answer is **albatross**."]
    assert (await read(client, token, cursor="x")).status_code == 422


async def test_links_end(world: World, client: httpx.AsyncClient) -> None:
    await ask(client, "heron", stateKey="chat", endUser="ann")
    database, accounts = world.services.database, world.services.accounts
    record, secret = await accounts.create_key("acme", SCOPES)

    async def works(token: str) -> bool:
        answer = await read(client, token)
        assert answer.is_success or (answer.status_code, answer.json()["code"]) == (401, "share_ended")
        return answer.is_success

    revoked, expired, kept = [await share(client) for _ in range(3)]
    async with a_client(world.url, secret) as http:
        of_key = await share(http)
    (await client.delete(f"{CHAT}/shares/{revoked['id']}")).raise_for_status()
    again = await client.delete(f"{CHAT}/shares/{revoked['id']}")
    await execute(
        database, "UPDATE conversation_shares SET expires_at = now() WHERE id = :id", id=expired["id"]
    )
    await accounts.revoke_key(record.id)

    assert (again.status_code, again.json()["code"]) == (404, "share_not_found")
    created = (revoked, expired, of_key, kept)
    assert [await works(each["token"]) for each in created] == [False, False, False, True]
    for token in ("rts_", kept["token"][:-1], kept["token"] + "x", secret, "rts_" + "x" * 43):
        assert not await works(token)
    assert (await client.get("/v1/shared", headers={"Authorization": "Bearer"})).status_code == 401

    account = (await accounts.find_by_name("acme")).id
    await accounts.change_account(account, suspended=True)
    assert not await works(kept["token"])
    await accounts.change_account(account, suspended=False)
    assert await works(kept["token"])
    (await client.delete(CHAT)).raise_for_status()
    assert not await works(kept["token"])
    # Not even with another conversation under its key.
    await ask(client, "crane", stateKey="chat")
    assert not await works(kept["token"])


async def test_a_link_ends_with_the_person(world: World) -> None:
    await ask(world.http, "heron", stateKey="chat", endUser="erin")
    token = (await share(world.http))["token"]

    await erased(world, "erin")

    assert (await read(world.http, token)).status_code == 401


async def test_what_cannot_be_shared_is_refused_by_name(client: httpx.AsyncClient) -> None:
    await ask(client, "heron", stateKey="chat")
    now = datetime.now(UTC)
    refused = [
        {"expiresAt": (now - timedelta(seconds=1)).isoformat()},
        {"expiresAt": (now + timedelta(days=400)).isoformat()},
        {"expiresAt": "tomorrow"},
        {"withToolCalls": "yes"},
        {"title": "x"},
    ]
    answers = [await client.post(f"{CHAT}/shares", json=each) for each in refused]

    assert [answer.status_code for answer in answers] == [422] * len(refused)
    for answer, asked in zip(answers, refused, strict=True):
        assert [error["field"] for error in answer.json()["errors"]] == list(asked)
    assert (await client.post("/v1/sessions/none/shares", json={})).status_code == 404
    assert (await client.get("/v1/sessions/none/shares")).status_code == 404
    assert (await client.get(f"{CHAT}/shares")).json() == {"items": [], "nextCursor": None}


async def test_a_conversation_has_a_limited_number_of_links(world: World, client: httpx.AsyncClient) -> None:
    await ask(client, "heron", stateKey="chat")
    await share(client)
    await execute(
        world.services.database,
        """INSERT INTO conversation_shares SELECT gen_random_uuid(), sha256(n::text::bytea), account_id,
        state_key, last_run, with_tool_calls, api_key_id, created_at, expires_at
        FROM conversation_shares, generate_series(2, :most) AS n""",
        most=MOST_SHARES,
    )

    refused = await client.post(f"{CHAT}/shares", json={})
    # Those that have expired do not count, and are deleted.
    await execute(world.services.database, "UPDATE conversation_shares SET expires_at = now()")
    await share(client)

    assert (refused.status_code, refused.json()["code"]) == (409, "too_many_shares")
    assert len((await client.get(f"{CHAT}/shares")).json()["items"]) == 1
    assert await scalar(world.services.database, "SELECT count(*) FROM conversation_shares") == 1


async def test_who_has_shared_and_revoked_is_in_the_audit_log(client: httpx.AsyncClient) -> None:
    await ask(client, "heron", stateKey="chat")
    created = await share(client, withToolCalls=True)
    (await client.delete(f"{CHAT}/shares/{created['id']}")).raise_for_status()

    entries = (await client.get("/v1/audit")).json()["items"]

    revoked, shared = [each for each in entries if each["action"].startswith("share.")]
    assert (shared["action"], shared["target"]) == ("share.created", created["id"])
    assert shared["after"]["stateKey"] == revoked["before"]["stateKey"] == "chat"
    assert shared["after"]["withToolCalls"] is True
    assert created["token"] not in json.dumps(entries)


async def test_a_link_that_is_read_too_often_waits(client: httpx.AsyncClient) -> None:
    await ask(client, "heron", stateKey="chat")
    token, other = [(await share(client))["token"] for _ in range(2)]
    statuses = set()
    for _ in range(2000):
        # Counted all the same, and refused before anything of the conversation is loaded.
        answer = await read(client, token, cursor="none")
        statuses.add(answer.status_code)
        if answer.status_code == 429:
            break

    assert statuses == {422, 429}
    assert int(answer.headers["retry-after"]) >= 1
    assert (await read(client, other)).status_code == 200


async def test_guessed_tokens_are_limited_by_address(client: httpx.AsyncClient) -> None:
    client.headers["X-Forwarded-For"] = "203.0.113.7"
    codes = {(await read(client, f"rts_{number:043}")).status_code for number in range(200)}

    assert codes == {401, 429}
