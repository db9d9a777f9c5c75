"""Calls of MCP clients that break off, are sent again, cancelled and answered: any server can go on."""

import asyncio
import json
from contextlib import closing
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mcp_types import METHOD_NOT_FOUND
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from app.simulator.script import Hold, Reply, Text, ToolUse, in_turn
from tests.e2e.agents import MESSAGES
from tests.e2e.office import MAIL, office
from tests.e2e.office import settings as office_settings
from tests.e2e.stories import KEY, World, WorldOf, a_client
from tests.integration.mcp_messages import TOKEN, a_call, beginning, in_session, messages_in, modern
from tests.patience import PATIENCE_S

PATH = "/mcp"
TOOL, MAILER = f"{MESSAGES}__assistant", f"{MESSAGES}__mailer"
FORMS: dict[str, Any] = {"elicitation": {}}


async def a_session(world: World, **capabilities: Any) -> str:
    begun = (await world.http.post(PATH, json=beginning(**capabilities))).raise_for_status()
    assert begun.json()["result"]["protocolVersion"] == "2025-11-25"
    return begun.headers["mcp-session-id"]


async def test_a_stream_is_resumed_after_any_event_with_the_same_bytes(world_of: WorldOf) -> None:
    world = await world_of(lambda _: Reply([Text("word " * 200)]), agent=MESSAGES)
    session = await a_session(world)
    called = in_session(session, a_call(TOOL, "hi", **TOKEN))

    whole = (await world.http.post(PATH, **called)).text
    again = (await world.http.post(PATH, **called)).text
    names = [line.removeprefix("id: ") for line in whole.splitlines() if line.startswith("id: ")]
    rests = [
        (await world.http.get(PATH, headers={**called["headers"], "Last-Event-ID": name})).text
        for name in names[:-1]
    ]

    assert len(names) >= 4
    assert again == whole
    assert rests[0] == whole.split("\n\n", 1)[1]
    assert [whole.endswith(rest) and len(messages_in(rest)) for rest in rests] == list(
        range(len(names) - 1, 0, -1)
    )
    assert len((await world.http.get("/v1/runs")).json()["items"]) == 1


async def test_calls_with_one_idempotency_key_are_one_run_in_all_revisions(world_of: WorldOf) -> None:
    world = await world_of(lambda _: Reply([Text("done")]), agent=MESSAGES)
    keyed = {"_meta": {"runtally/idempotencyKey": "k"}}
    called = a_call(TOOL, "hi", **keyed)

    answers = [await world.http.post(PATH, **modern(called))]
    for version in HANDSHAKE_PROTOCOL_VERSIONS:
        headers = {"MCP-Protocol-Version": version}
        answers.append(await world.http.post(PATH, json={**called, "id": version}, headers=headers))
    other = await world.http.post(PATH, **modern(a_call(TOOL, "ho", **keyed)))

    runs = {messages_in(each.text)[-1][1]["result"]["_meta"]["runtally/runId"] for each in answers}
    assert len(runs) == 1
    assert other.json()["result"]["isError"] is True
    assert len((await world.http.get("/v1/runs")).json()["items"]) == 1


async def test_a_form_is_answered_while_its_stream_is_open_and_asks_only_once(
    world_of: WorldOf, tmp_path: Path
) -> None:
    send = Reply([ToolUse(MAIL, {"to": "a@example.org", "text": "hi"})])
    script = in_turn(send, Reply([Text("Sent.")]))
    world = await world_of(script, agent=MESSAGES, **office_settings(tmp_path))
    session = await a_session(world, **FORMS)
    called = in_session(session, a_call(MAILER, "write"))
    seen: list[tuple[str | None, dict[str, Any]]] = []

    async with world.http.stream("POST", PATH, **called) as response:
        text = ""
        async for part in response.aiter_text():
            text += part
            if not seen and "elicitation/create" in text:
                seen = messages_in(text)
                asked = seen[-1][1]
                filled = {"action": "accept", "content": {"approved": True}}
                failed = {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -1, "message": "no"}}
                answers = [failed, {"jsonrpc": "2.0", "id": asked["id"], "result": filled}]
                answers.append({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}})
                taken = [await world.http.post(PATH, **in_session(session, each)) for each in answers]
    replayed = (await world.http.post(PATH, **called)).text

    assert [each.status_code for each in taken] == [202, 202, 202]
    assert messages_in(text)[-1][1]["result"]["content"][0]["text"] == "Sent."
    assert office().sent == [("a@example.org", "hi")]
    assert "elicitation/create" not in replayed


async def test_only_the_client_of_a_session_cancels_its_calls(world_of: WorldOf) -> None:
    """Even if it has as many streams as there may be."""
    holds = {"keep": Hold(0), "stop": Hold(0)}
    limit = {"RUNTALLY_MAX_READERS_PER_KEY": 1}
    world = await world_of(
        lambda request: Reply([Text("done")], hold=holds[request.last_text]), agent=MESSAGES, **limit
    )
    _, key = await world.services.accounts.create_key("default", ["runs:write"])
    session = await a_session(world)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}

    keeping = asyncio.create_task(world.http.post(PATH, **in_session(session, a_call(TOOL, "keep"))))
    await holds["keep"].reached.wait()
    async with a_client(world.url, key, agent=MESSAGES) as other:
        foreign = await other.post(PATH, **in_session(session, cancel))
    elsewhere = await world.http.post(PATH, **in_session(await a_session(world), cancel))
    one_more = await world.http.post(PATH, **in_session(session, {**a_call(TOOL, "stop"), "id": 2}))
    holds["keep"].until.set()
    kept = messages_in((await keeping).text)[-1][1]["result"]
    stopping = asyncio.create_task(
        world.http.post(PATH, **in_session(session, {**a_call(TOOL, "stop"), "id": 3}))
    )
    await holds["stop"].reached.wait()
    own = await world.http.post(PATH, **in_session(session, {**cancel, "params": {"requestId": 3}}))
    stopped = messages_in((await stopping).text)[-1][1]["result"]

    assert [each.status_code for each in (foreign, elsewhere, own)] == [202, 202, 202]
    assert [each["isError"] for each in (kept, one_more.json()["result"], stopped)] == [False, True, True]
    assert len((await world.http.get("/v1/runs")).json()["items"]) == 2


async def test_what_is_no_message_of_the_protocol_is_refused_in_its_form(world_of: WorldOf) -> None:
    world = await world_of(lambda _: Reply([Text("done")]), agent=MESSAGES)
    call = a_call(TOOL, "hi")
    unknown = {"headers": {"MCP-Protocol-Version": "2031-01-01"}}
    odd_name = modern(call)
    odd_name["headers"]["Mcp-Name"] = "messages__other"
    wrong: dict[str, tuple[dict[str, Any], int, int]] = {
        "no JSON": ({"content": b"{", "headers": {"Content-Type": "application/json"}}, 400, -32700),
        "a batch": ({"json": [call]}, 422, -32600),
        "no message": ({"json": {"method": 1}}, 400, -32600),
        "a long id": ({"json": {**call, "id": "x" * 300}}, 200, -32600),
        "an unknown revision": ({"json": call, **unknown}, 400, -32602),
        "an unknown method": (modern({**call, "method": "tools/none"}), 404, -32601),
        "another name in the header": (odd_name, 400, -32020),
        "an unknown session": (in_session("mine", call), 404, -32600),
        "a response to nothing": ({"json": {"jsonrpc": "2.0", "id": 7, "result": {}}}, 422, -32600),
        "too large": ({"json": a_call(TOOL, "x" * 5_000_000)}, 413, -32600),
    }

    for name, (request, status, code) in wrong.items():
        answer = await world.http.post(PATH, **request)
        found = answer.json()["error"]["code"]
        assert (answer.status_code, found) == (status, code), (name, answer.text)
    resumed = await world.http.get(PATH, headers={"Last-Event-ID": "1"})
    opened = await world.http.get(PATH)
    left = await world.http.delete(PATH)
    assert [each.status_code for each in (resumed, opened, left)] == [422, 405, 405]
    assert [each.json()["error"]["code"] for each in (resumed, opened, left)] == [-32600] * 3


async def test_whitespace_around_the_value_of_a_header_does_not_count(world_of: WorldOf) -> None:
    world = await world_of(lambda _: Reply([Text("done")]), agent=MESSAGES)
    call = modern(a_call(TOOL, "hi"))
    # Other clients of HTTP cannot send it.
    connection = HTTPConnection(urlsplit(world.url).netloc, timeout=PATIENCE_S)
    spaced = {name: f"  {value} \t" for name, value in call["headers"].items()}
    headers = {**spaced, "Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    request = partial(connection.request, "POST", PATH, json.dumps(call["json"]), headers)

    with closing(connection):
        await asyncio.to_thread(request)
        answer = await asyncio.to_thread(connection.getresponse)
        stream = (await asyncio.to_thread(answer.read)).decode()

    assert answer.status == 200, stream
    assert messages_in(stream)[-1][1]["result"]["content"][0]["text"] == "done"


async def test_no_notifications_are_listened_to(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), agent=MESSAGES)
    params = {"notifications": {"taskIds": ["r-1"], "toolsListChanged": True}}
    listen = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}

    answer = await world.http.post(PATH, **modern(listen))

    assert (answer.status_code, answer.json()["error"]["code"]) == (404, METHOD_NOT_FOUND)
