"""A request that is repeated with its `Idempotency-Key` starts one run, whichever door it comes through."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio

from app.requests.principal import SCOPES
from app.simulator.script import ApiRequest, Hold, Reply, Text, ToolUse, in_turn, text_of
from tests.e2e.agents import MESSAGES
from tests.e2e.stories import World, WorldOf, a_client
from tests.graph_files import graph_files
from tests.integration.doors import CHAT, MANAGED, RESPONSES, a_run
from tests.patience import until_shown

pytestmark = pytest.mark.asyncio(loop_scope="module")

GRAPH = "assistant"
MODEL = f"{MESSAGES}:{GRAPH}"
Body: TypeAlias = dict[str, Any]
Asking: TypeAlias = Callable[[httpx.AsyncClient], Awaitable[tuple[str, Callable[[str], Body]]]]
"""Prepares a conversation; the path, and the body that asks a text."""


def echo(request: ApiRequest) -> Reply:
    return Reply([Text(f"You said {request.last_text}")])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(shared_world_of: WorldOf, tmp_path_factory: pytest.TempPathFactory) -> World:
    painter = "---\ndescription: Paints.\nclient_tools: true\n---\nPaint.\n"
    graphs = graph_files(tmp_path_factory.mktemp("posted"), painter=painter)
    return await shared_world_of(echo, agent=MESSAGES, **graphs)


async def a_tenant(world: World) -> httpx.AsyncClient:
    scopes = [scope for scope in SCOPES if scope != "admin"]
    _, key = await world.services.accounts.create_key(f"tenant-{uuid4().hex}", scopes)
    return a_client(world.url, key)


@pytest_asyncio.fixture(loop_scope="module")
async def tenant(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with await a_tenant(world) as http:
        yield http


def said(text: str, role: str = "user") -> Body:
    return {"role": role, "content": text}


def new(path: str, body: Callable[[str], Body]) -> Asking:
    async def prepared(_: httpx.AsyncClient) -> tuple[str, Callable[[str], Body]]:
        return path, body

    return prepared


async def a_chat_that_goes_on(http: httpx.AsyncClient) -> tuple[str, Callable[[str], Body]]:
    asked = {"model": MODEL, "messages": [said("hi")]}
    answer = (await http.post(CHAT, json=asked)).json()["choices"][0]["message"]["content"]
    return CHAT, lambda text: {**asked, "messages": [said("hi"), said(answer, "assistant"), said(text)]}


async def a_response_after_another(http: httpx.AsyncClient) -> tuple[str, Callable[[str], Body]]:
    first = (await http.post(RESPONSES, json={"model": MODEL, "input": "hi"})).json()
    return RESPONSES, lambda text: {"model": MODEL, "input": text, "previous_response_id": first["id"]}


async def a_response_beside_another(http: httpx.AsyncClient) -> tuple[str, Callable[[str], Body]]:
    path, body = await a_response_after_another(http)
    assert (await http.post(path, json=body("first"))).status_code == 200
    return path, body


async def a_created_conversation(http: httpx.AsyncClient) -> tuple[str, Callable[[str], Body]]:
    items = [{"type": "message", **said("I am Bob.")}]
    made = (await http.post("/openai/v1/conversations", json={"items": items})).json()
    return RESPONSES, lambda text: {"model": MODEL, "input": text, "conversation": made["id"]}


async def a_conversation_that_goes_on(http: httpx.AsyncClient) -> tuple[str, Callable[[str], Body]]:
    path, body = await a_created_conversation(http)
    assert (await http.post(path, json=body("first"))).status_code == 200
    return path, body


def event(text: str) -> Body:
    return {"type": "user.message", "content": [{"type": "text", "text": text}]}


NEW_SESSION = {"agent": MODEL, "environment_id": "env_default"}


async def a_session(http: httpx.AsyncClient) -> tuple[str, Callable[[str], Body]]:
    made = (await http.post(MANAGED, json=NEW_SESSION)).json()
    interrupted = [{"type": "user.interrupt"}]
    return f"{MANAGED}/{made['id']}/events", lambda text: {"events": [*interrupted, event(text)]}


DOORS: dict[str, Asking] = {
    "native": new("/v1/runs/wait", lambda text: a_run(GRAPH, text)),
    "chat": new(CHAT, lambda text: {"model": MODEL, "messages": [said(text)]}),
    "chat, streamed": new(CHAT, lambda text: {"model": MODEL, "messages": [said(text)], "stream": True}),
    "chat that goes on": a_chat_that_goes_on,
    "responses": new(RESPONSES, lambda text: {"model": MODEL, "input": text}),
    "responses, streamed": new(RESPONSES, lambda text: {"model": MODEL, "input": text, "stream": True}),
    "background": new(RESPONSES, lambda text: {"model": MODEL, "input": text, "background": True}),
    "response after another": a_response_after_another,
    "response beside another": a_response_beside_another,
    "created conversation": a_created_conversation,
    "conversation that goes on": a_conversation_that_goes_on,
    "session": new(MANAGED, lambda text: {**NEW_SESSION, "initial_events": [event(text)]}),
    "message to a session": a_session,
}


async def all_runs(http: httpx.AsyncClient) -> list[Any]:
    found = await until_shown(
        http, "/v1/runs", lambda found: all(each["final"] is not None for each in found["items"])
    )
    runs: list[Any] = found["items"]
    return runs


def settled(answer: httpx.Response) -> str:
    """What does not say how far the run was."""
    if "text/event-stream" in answer.headers["content-type"]:
        return "".join(line for line in answer.text.splitlines(keepends=True) if '"delta"' in line)
    found = answer.json()
    return str(found.get("id") or found.get("runId") or [each["id"] for each in found.get("data", ())])


@pytest.mark.parametrize("door", DOORS)
async def test_one_run_and_one_bill(world: World, tenant: httpx.AsyncClient, door: str) -> None:
    path, body = await DOORS[door](tenant)
    known = len(await all_runs(tenant))
    sent = len(world.simulator.sent)
    key = {"Idempotency-Key": f"key of {door}"}

    at_once = await asyncio.gather(
        *(tenant.post(path, json=body("Who am I?"), headers=key) for _ in range(3))
    )
    await all_runs(tenant)
    later = await tenant.post(path, json=body("Who am I?"), headers=key)
    runs = await all_runs(tenant)

    assert {answer.status_code for answer in (*at_once, later)} <= {200, 202}, [each.text for each in at_once]
    assert len({settled(answer) for answer in (*at_once, later)}) == 1, [each.text for each in at_once]
    assert len(runs) == known + 1
    assert len(world.simulator.sent) == sent + 1
    assert len((await tenant.get(f"/v1/runs/{runs[0]['runId']}/receipts")).json()["items"]) == 1

    another = await tenant.post(path, json=body("Who are you?"), headers=key)
    alone = await tenant.post(path, json=body("Who am I?"), headers={"Idempotency-Key": "another"})

    assert (another.status_code, alone.status_code < 300) == (409, True), another.text
    assert "Idempotency-Key" in another.text
    assert len(await all_runs(tenant)) == known + 2


async def a_chat_beside_another(http: httpx.AsyncClient) -> tuple[str, Callable[[str], Body]]:
    path, body = await a_chat_that_goes_on(http)
    assert (await http.post(path, json=body("first"))).status_code == 200
    return path, body


@pytest.mark.parametrize("asking", [a_response_beside_another, a_chat_beside_another])
async def test_no_copy_is_left_without_a_run(tenant: httpx.AsyncClient, asking: Asking) -> None:
    path, body = await asking(tenant)
    key = {"Idempotency-Key": "beside"}

    answers = await asyncio.gather(*(tenant.post(path, json=body("Hi?"), headers=key) for _ in range(4)))
    runs = await all_runs(tenant)
    spent = {"scope": "account", "window": "total", "mode": "hard", "usd": "0.0000001"}
    (await tenant.put("/v1/budgets/none", json=spent)).raise_for_status()
    refused = await tenant.post(path, json=body("Ho?"))
    kept = (await tenant.get("/v1/sessions")).json()["items"]

    assert {answer.status_code for answer in answers} == {200}
    assert refused.status_code == 402
    assert {each["stateKey"] for each in kept} == {run["stateKey"] for run in runs}


@pytest.mark.parametrize("door", [name for name, door in DOORS.items() if "session" not in name])
async def test_keys_of_other_accounts_are_apart(world: World, tenant: httpx.AsyncClient, door: str) -> None:
    key = {"Idempotency-Key": "the same"}
    async with await a_tenant(world) as other:
        for http in (tenant, other):
            path, body = await DOORS[door](http)
            known = len(await all_runs(http))

            assert (await http.post(path, json=body("Who am I?"), headers=key)).status_code in {200, 202}

            assert len(await all_runs(http)) == known + 1


async def test_a_message_to_a_run_at_work_is_sent_once_and_ends_no_later_turn(
    world: World, tenant: httpx.AsyncClient
) -> None:
    made = (await tenant.post(MANAGED, json=NEW_SESSION)).json()
    path, hold = f"{MANAGED}/{made['id']}/events", Hold(0)

    async def respond(request: ApiRequest) -> Reply:
        if request.last_text == "hold":
            return Reply([Text("Held.")], hold=hold)
        return Reply([Text(f"{len(request.messages)}")])

    world.simulator.responder = respond
    try:
        begun = {"events": [{"type": "user.interrupt"}, event("hold")]}
        for _ in range(2):
            answer = await tenant.post(path, json=begun, headers={"Idempotency-Key": "begin"})
            assert answer.status_code == 200
            await hold.reached.wait()
        more, key = {"events": [event("and this")]}, {"Idempotency-Key": "more"}
        sent = [(await tenant.post(path, json=more, headers=key)).json()["data"] for _ in range(2)]
        hold.until.set()
        (run,) = await all_runs(tenant)
        events = (await tenant.get(f"/v1/runs/{run['runId']}/events")).text
        assert ("Held." in events, "interrupted" in events) == (True, False)
        sent.append((await tenant.post(path, json=more, headers=key)).json()["data"])

        assert [each[0]["id"] for each in sent] == [sent[0][0]["id"]] * 3
        assert [each["runId"] for each in await all_runs(tenant)] == [run["runId"]]
        texts = [text_of(each["content"]) for each in world.simulator.requests[-1].messages]
        assert texts.count("and this") == 1
    finally:
        world.simulator.responder = echo


COLOR = {"name": "pick", "parameters": {"type": "object"}}
FUNCTIONS: dict[str, Body] = {
    CHAT: {"tools": [{"type": "function", "function": COLOR}], "messages": [said("Which color?")]},
    RESPONSES: {"tools": [{"type": "function", **COLOR}], "input": "Which color?"},
}


def with_result(path: str, first: Any) -> Body:
    if path == CHAT:
        message = first["choices"][0]["message"]
        (call,) = message["tool_calls"]
        result = {"role": "tool", "tool_call_id": call["id"], "content": "blue"}
        return {"messages": [*FUNCTIONS[path]["messages"], message, result]}
    (call,) = [each for each in first["output"] if each["type"] == "function_call"]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "blue"}
    return {"previous_response_id": first["id"], "input": [result]}


@pytest.mark.parametrize("path", FUNCTIONS)
async def test_a_request_is_answered_with_its_calls_when_they_have_results(
    world: World, tenant: httpx.AsyncClient, path: str
) -> None:
    world.simulator.responder = in_turn(
        Reply([Text("Wait."), ToolUse("client-pick", {})]), Reply([Text("It is blue.")])
    )
    try:
        asked, key = {"model": f"{MESSAGES}:painter", **FUNCTIONS[path]}, {"Idempotency-Key": "colors"}
        first = (await tenant.post(path, json=asked, headers=key)).json()
        done = await tenant.post(path, json={**asked, **with_result(path, first)})
        again = (await tenant.post(path, json=asked, headers=key)).json()

        assert "It is blue." in done.text
        assert again == first
        assert len(await all_runs(tenant)) == 1
    finally:
        world.simulator.responder = echo


async def test_an_empty_session_is_created_once(tenant: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "one"}
    made = [(await tenant.post(MANAGED, json=NEW_SESSION, headers=headers)).json() for _ in range(2)]
    other = (await tenant.post(MANAGED, json={**NEW_SESSION, "title": "x"}, headers=headers)).json()

    assert made[0]["id"] == made[1]["id"] != other["id"]
    assert len((await tenant.get(MANAGED)).json()["data"]) == 2


@pytest.mark.parametrize("path", ["/managed-agents/v1/deployments/{}/run", "/v1/schedules/{}/trigger"])
async def test_a_deployment_is_run_once(tenant: httpx.AsyncClient, path: str) -> None:
    order = {**NEW_SESSION, "name": "x", "initial_events": [event("hi")]}
    deployment = (await tenant.post("/managed-agents/v1/deployments", json=order)).raise_for_status().json()

    answers = [
        await tenant.post(path.format(deployment["id"]), headers={"Idempotency-Key": key}) for key in "aab"
    ]

    first, again, other = (answer.raise_for_status().json() for answer in answers)
    assert first == again != other
    assert len(await all_runs(tenant)) == 2


async def test_a_key_that_cannot_be_is_named(tenant: httpx.AsyncClient) -> None:
    answer = await tenant.post(
        CHAT, json={"model": MODEL, "messages": [said("hi")]}, headers={"Idempotency-Key": "x" * 256}
    )

    assert (answer.status_code, answer.json()["error"]["param"]) == (422, "Idempotency-Key")
    assert json.loads((await tenant.get("/v1/runs")).text)["items"] == []


@pytest.mark.parametrize("agent", ["", "..", "claude_agents:none"])
@pytest.mark.parametrize("events", [[], [event("Hi")]])
async def test_a_session_of_no_agent_is_not_found(
    tenant: httpx.AsyncClient, agent: str, events: list[Any]
) -> None:
    body = {"agent": agent, "environment_id": "env_default", "initial_events": events}

    refused = await tenant.post(MANAGED, json=body)

    assert (refused.status_code, refused.json()["error"]["type"]) == (404, "not_found_error")
