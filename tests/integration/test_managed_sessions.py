"""Sessions of Managed Agents before their first run, and what is refused."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from app.ids import RunKey
from app.requests.principal import SCOPES, Scope
from app.runs.conversations.service import ConversationNotFound
from app.runs.managed.records import PREFIX, SessionSettings
from app.runs.managed.service import SessionNotSettled
from app.runs.managed.turns import NewTurns
from app.simulator.script import Reply, Text, in_turn
from tests.e2e.stories import ASSISTANT, KEY, World, WorldOf, a_client
from tests.graph_files import graph_files
from tests.integration.conftest import in_shared_world
from tests.integration.statements import execute, noted
from tests.patience import PATIENCE_S

PATH = "/managed-agents/v1"
SESSIONS = f"{PATH}/sessions"
NEW = {"agent": ASSISTANT, "environment_id": "env_default"}


async def created(http: httpx.AsyncClient, **more: Any) -> Any:
    """A new session."""
    answer = await http.post(SESSIONS, json={**NEW, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def message_of(answer: httpx.Response) -> tuple[int, str, str]:
    """An error as clients of the provider read it."""
    error = answer.json()["error"]
    return answer.status_code, error["type"], error["message"]


@in_shared_world
async def test_a_session_is_a_conversation_before_its_first_run(tenant: httpx.AsyncClient) -> None:
    budget = {"type": "limit", "max_list_cost": {"amount": "250", "currency": "USD"}}
    first = await created(tenant, title="One", metadata={"a": "1", "b": "2"}, budget=budget)
    path = f"{SESSIONS}/{first['id']}"
    second = await created(tenant)
    patch = {"title": None, "metadata": {"a": None, "c": "3"}, "budget": None}
    changed = (await tenant.post(path, json=patch)).json()
    same = (await tenant.post(path, json={})).json()
    conversation = (await tenant.get(f"/v1/sessions/{first['id']}")).json()
    pages = [(await tenant.get(SESSIONS, params={"limit": 1})).json()]
    pages.append((await tenant.get(SESSIONS, params={"limit": 1, "page": pages[0]["next_page"]})).json())
    oldest = (await tenant.get(SESSIONS, params={"order": "asc", "statuses[]": "idle"})).json()["data"]
    archived = (await tenant.post(f"{path}/archive")).json()
    left = (await tenant.get(SESSIONS, params={"created_at[gte]": first["created_at"]})).json()["data"]
    refused = await tenant.post(
        f"{path}/events", json={"events": [{"type": "user.message", "content": [TEXT]}]}
    )
    deleted = await tenant.delete(path)

    assert first["id"].startswith(PREFIX)
    assert (first["status"], first["budget"], first["usage"]["output_tokens"]) == ("idle", budget, 0)
    assert (changed["title"], changed["metadata"], changed["budget"]) == (None, {"b": "2", "c": "3"}, None)
    assert {**same, "stats": 0} == {**changed, "stats": 0}
    assert (conversation["turns"], conversation["messages"]) == (0, [])
    assert [each["id"] for page in pages for each in page["data"]] == [second["id"], first["id"]]
    assert pages[1]["next_page"] is None
    assert [each["id"] for each in oldest] == [first["id"], second["id"]]
    assert archived["archived_at"] is not None
    assert [each["id"] for each in left] == [second["id"]]
    assert (message_of(refused)[0], refused.headers["x-should-retry"]) == (409, "false")
    assert deleted.json() == {"type": "session_deleted", "id": first["id"]}
    assert (await tenant.get(path)).status_code == 404
    assert (await tenant.get(f"/v1/sessions/{first['id']}")).status_code == 404


TEXT = {"type": "text", "text": "hi"}


def with_tool(name: str, schema: dict[str, Any], *, graph: str = ASSISTANT) -> dict[str, Any]:
    tool = {"type": "custom", "name": name, "description": "x", "input_schema": schema}
    return {"agent": {"type": "agent_with_overrides", "id": graph, "tools": [tool]}}


WRONG: dict[str, dict[str, Any]] = {
    "agent": {"agent": None},
    "agent.tools": with_tool("x", {}),
    "agent.tools.0.name": with_tool("x x", {}),
    "environment_id": {"environment_id": "env_other"},
    "resources": {"resources": [{"type": "file", "file_id": "x"}]},
    "vault_ids": {"vault_ids": ["vlt_1"]},
    "model": {"agent": {"type": "agent_with_overrides", "id": ASSISTANT, "model": "gpt"}},
    "metadata": {"metadata": {"a": "x" * 513}},
    "title": {"title": "a\x00b"},
    "deployment": {"deployment": "x"},
    "initial_events.0.content": {"initial_events": [{"type": "user.message", "content": []}]},
    "initial_events.0.content: must hold": {
        "initial_events": [{"type": "user.message", "content": [{**TEXT, "text": " "}]}]
    },
    "initial_events.1.content.0.source.data": {
        "initial_events": [
            {"type": "user.message", "content": [TEXT]},
            {
                "type": "user.message",
                "content": [
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x"}}
                ],
            },
        ]
    },
}


@in_shared_world
@pytest.mark.parametrize("field", WRONG)
async def test_a_session_that_cannot_be_is_refused_by_its_field(
    tenant: httpx.AsyncClient, field: str
) -> None:
    status, kind, message = message_of(await tenant.post(SESSIONS, json={**NEW, **WRONG[field]}))

    assert status == (404 if field == "model" else 400), kind
    assert message.startswith(field)
    assert (await tenant.get(SESSIONS)).json()["data"] == []


async def test_a_session_begins_with_its_first_message_or_not_at_all(world_of: WorldOf) -> None:
    world = await world_of(lambda _: Reply([Text("ok")]))
    http = world.http
    messages = [{"type": "user.message", "content": [{**TEXT, "text": each}]} for each in ("One", "Two")]
    first = await created(
        http, agent="messages:assistant", title="Named", metadata={"a": "1"}, initial_events=messages
    )
    begun = (await http.get(f"{SESSIONS}/{first['id']}")).json()
    caller = await world.services.accounts.authenticate(KEY)
    asked: list[str] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(asked) < len(messages):
            listed = await http.get(f"{SESSIONS}/{first['id']}/events", params={"types[]": "user.message"})
            asked = [each["content"][0]["text"] for each in listed.json()["data"]]
            await asyncio.sleep(0.02)
    untitled = await created(http, agent="messages:assistant", initial_events=messages[:1])
    await world.services.ledger.change_mode(caller.account_id, "prepaid")
    refused = await http.post(SESSIONS, json={**NEW, "initial_events": messages})

    assert first["id"].startswith(PREFIX)
    assert (begun["title"], begun["metadata"], begun["deployment_id"]) == ("Named", {"a": "1"}, None)
    assert asked == ["One", "Two"]
    assert message_of(refused)[:2] == (402, "billing_error")
    assert untitled["title"] is None
    assert [each["id"] for each in (await http.get(SESSIONS)).json()["data"]] == [untitled["id"], first["id"]]
    assert len((await http.get("/v1/sessions")).json()["items"]) == 2


async def test_a_tool_that_no_run_could_have_is_refused_when_it_is_described(
    world_of: WorldOf, tmp_path: Path
) -> None:
    graph = "---\ndescription: Takes tools.\nclient_tools: true\n---\nHelp.\n"
    http = (await world_of(in_turn(), **graph_files(tmp_path, helper=graph))).http
    helper = "messages:helper"
    unusable = with_tool("x", {"type": "nothing"}, graph=helper)
    session = await created(http, agent=helper)
    tools = {"agent": {"tools": unusable["agent"]["tools"]}}
    answers = [
        await http.post(SESSIONS, json={**NEW, **unusable}),
        await http.post(f"{SESSIONS}/{session['id']}", json=tools),
        await http.post(f"{SESSIONS}/{(await created(http))['id']}", json=tools),
    ]

    schema, graphs = "agent.tools.0.input_schema: is not a JSON schema", "agent.tools: the graph"
    said = [message_of(answer)[2] for answer in answers]
    assert [each.startswith(start) for each, start in zip(said, (schema, schema, graphs), strict=True)] == [
        True
    ] * 3, said


EVENTS: dict[str, Any] = {
    "events": [],
    "events.0": {"type": "user.define_outcome"},
    "events.0.content": {"type": "user.message", "content": [{**TEXT, "text": " "}]},
    "events.0.content.0.source.data": {
        "type": "user.message",
        "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x"}}],
    },
    "events.0.content.0.source.type": {
        "type": "user.message",
        "content": [{"type": "document", "source": {"type": "file", "file_id": "x"}}],
    },
    "events.0.tool_use_id": {"type": "user.tool_confirmation", "tool_use_id": "x", "result": "allow"},
    "events.0.custom_tool_use_id": {
        "type": "user.custom_tool_result",
        "custom_tool_use_id": f"sevt_{uuid4()}~3",
    },
}


@in_shared_world
@pytest.mark.parametrize("field", EVENTS)
async def test_an_event_that_cannot_be_is_refused_by_its_field(tenant: httpx.AsyncClient, field: str) -> None:
    """And nothing happens, also not what the events before it ask for."""
    session = await created(tenant)
    wrong = EVENTS[field]
    events = wrong if isinstance(wrong, list) else [wrong, {"type": "user.message", "content": [TEXT]}]

    answer = await tenant.post(f"{SESSIONS}/{session['id']}/events", json={"events": events})

    status, kind, message = message_of(answer)
    assert (status, kind) == (400, "invalid_request_error")
    assert message.startswith(field)
    assert (await tenant.get(f"{SESSIONS}/{session['id']}/events")).json()["data"] == []


@in_shared_world
async def test_what_is_not_served_says_so(tenant: httpx.AsyncClient) -> None:
    agent = f"{PATH}/agents/{ASSISTANT}"
    refused = [
        await tenant.post(f"{PATH}/agents", json={"name": "x", "model": "y"}),
        await tenant.post(agent, json={"name": "x"}),
        await tenant.post(f"{agent}/archive"),
        await tenant.post(f"{PATH}/environments", json={"name": "x"}),
        await tenant.get(f"{PATH}/webhooks"),
    ]
    unknown = [await tenant.get(f"{PATH}/agents/x:y"), await tenant.get(f"{PATH}/environments/env_x")]
    shown = [(await tenant.get(path)).json() for path in (agent, f"{PATH}/environments/env_default")]

    words = ["graphs", "graphs", "graphs", "env_default", "webhooks"]
    assert all(word in message_of(each)[2] for word, each in zip(words, refused, strict=True))
    assert [message_of(each)[:2] for each in unknown] == [(404, "not_found_error")] * 2
    assert (shown[0]["id"], shown[0]["system"]) == (ASSISTANT, None)
    assert "core__get_current_time" in shown[0]["metadata"]["tools"]
    assert shown[1]["config"] == {"type": "self_hosted"}


@in_shared_world
async def test_a_key_reaches_what_it_may_and_the_restricted_one_sees_its_graphs_only(world: World) -> None:
    account = f"tenant-{uuid4().hex}"

    async def key(scopes: Sequence[Scope]) -> str:
        return (await world.services.accounts.create_key(account, scopes))[1]

    tenant = [scope for scope in SCOPES if scope != "admin"]
    async with a_client(world.url, await key(tenant)) as owner:
        session = await created(owner, title="secret")
    path = f"{SESSIONS}/{session['id']}"
    message = {"events": [{"type": "user.message", "content": [TEXT]}]}
    confirm = {"events": [{"type": "user.tool_confirmation", "tool_use_id": "x", "result": "deny"}]}
    async with a_client(world.url, await key(["runs:write"])) as writer:
        foreign = [await writer.post(f"{path}/events", json=message), await writer.delete(path)]
        own = await created(writer)
        deleted = await writer.delete(f"{SESSIONS}/{own['id']}")
    async with a_client(world.url, await key(["runs:write", "runs:read"])) as reader:
        unapproved = await reader.post(f"{path}/events", json=confirm)
        blind = (await reader.get(path)).json()
    async with a_client(world.url) as other:
        del other.headers["authorization"]
        missing = await other.get(path)
        named = await other.get(path, headers={"x-api-key": await key(["runs:read"])})

    assert [message_of(each) for each in foreign] == [
        (403, "permission_error", "This API key lacks the scope runs:read.")
    ] * 2
    assert deleted.status_code == 200
    assert message_of(unapproved)[2] == "This API key lacks the scope runs:approve."
    assert blind["usage"]["list_cost"] is None
    assert message_of(missing)[:2] == (401, "authentication_error")
    assert named.status_code == 200


@in_shared_world
async def test_those_who_follow_a_session_are_woken_by_turns_and_by_its_end(world: World) -> None:
    session = await created(world.http)
    account_id = await world.account_id()
    turns = NewTurns(world.services.database)

    async with asyncio.timeout(PATIENCE_S):
        past = await turns.wait(account_id, session["id"], after=7)
        waiting = asyncio.create_task(turns.wait(account_id, session["id"], after=0))
        await turns.check()
        other = await turns.wait(account_id, f"{PREFIX}none", after=0)
        assert not waiting.done()
        (await world.http.delete(f"{SESSIONS}/{session['id']}")).raise_for_status()
        while not waiting.done():
            await turns.check()
            await asyncio.sleep(0)

    assert (past, other, waiting.result()) == (0, None, None)
    with pytest.raises(ConversationNotFound):
        await world.services.managed.get(
            await world.services.accounts.authenticate(world.http.headers["authorization"].split()[1]),
            session["id"],
        )


async def test_what_a_budget_has_left_is_known_before_the_next_run_begins(world_of: WorldOf) -> None:
    world = await world_of(in_turn(Reply([Text("One")]), Reply([Text("Two")])))
    caller = await world.services.accounts.authenticate(KEY)
    managed = replace(world.services.managed, settle_tries=2)
    settings = SessionSettings(
        graph_id="messages:assistant", api_key_id=caller.api_key_id, budget_usd=Decimal(100)
    )
    session = (await managed.create(caller, settings, title=None, request_id="q0")).id
    first = await managed.say(caller, session, "hi", request_id="q1")
    await world.services.runs.wait(RunKey(caller.account_id, first.run_id))
    # As if a receipt were still on its way.
    more = "UPDATE runs SET meters = json_build_object('sdk', 2, 'gateway', 2, 'drift', 0)"
    await execute(world.services.database, more)

    with pytest.raises(SessionNotSettled):
        await managed.say(caller, session, "again", request_id="q2")
    await execute(world.services.database, "UPDATE runs SET ended_at = now() - interval '2 minutes'")
    second = await managed.say(caller, session, "again", request_id="q3")

    assert second.run_id != first.run_id
    await world.services.runs.wait(RunKey(caller.account_id, second.run_id))


async def test_receipts_are_read_only_for_a_page_that_may_list_what_they_say(world_of: WorldOf) -> None:
    world = await world_of(in_turn(Reply([Text("One")])))
    session = await created(world.http, agent="messages:assistant")
    path = f"{SESSIONS}/{session['id']}/events"
    sent = await world.http.post(path, json={"events": [{"type": "user.message", "content": [TEXT]}]})
    assert sent.status_code == 200, sent.text
    caller = await world.services.accounts.authenticate(KEY)
    (turn,) = (await world.services.managed.get(caller, session["id"])).turns
    await world.services.runs.wait(RunKey(caller.account_id, turn.run_id))
    whole = (await world.http.get(path)).json()["data"]
    (usage,) = (each for each in whole if each["type"] == "session.usage")

    async def listed(kind: str, **more: str) -> tuple[list[str], int]:
        with noted(world.services.database, "charge_receipts.usage_unit_id") as read:
            answer = await world.http.get(path, params={"types[]": kind, **more})
        return [each["id"] for each in answer.json()["data"]], len(read)

    messages, none_read = await listed("agent.message")
    used, once_read = await listed("session.usage")
    # The page before had another filter.
    ended, _ = await listed("session.status_idle", page=usage["id"])
    before, _ = await listed("user.message", page=usage["id"])

    assert (len(messages), none_read) == (1, 0)
    assert (used, once_read) == ([usage["id"]], 1)
    assert (len(ended), before) == (1, [])


async def test_a_page_reads_the_receipts_and_questions_of_its_runs_together(world_of: WorldOf) -> None:
    world = await world_of(lambda _: Reply([Text("One")]))
    caller = await world.services.accounts.authenticate(KEY)
    session = await created(world.http, agent="messages:assistant")
    path = f"{SESSIONS}/{session['id']}/events"
    for number in range(4):
        said = await world.services.managed.say(caller, session["id"], f"Q{number}", request_id="q")
        await world.services.runs.wait(RunKey(caller.account_id, said.run_id))
    await world.services.managed.settled(caller, session["id"])

    async def listed(**more: str) -> tuple[list[str], int, int]:
        database = world.services.database
        with (
            noted(database, "charge_receipts.usage_unit_id") as receipts,
            noted(database, ".question") as asked,
        ):
            events = (await world.http.get(path, params={"types[]": "span.model_request_end", **more})).json()
        return [each["id"] for each in events["data"]], len(receipts), len(asked)

    whole = await listed()
    newest = await listed(order="desc", limit="2")

    assert (len(whole[0]), *whole[1:]) == (4, 1, 1)
    assert newest == (whole[0][:1:-1], 1, 1)
