"""Clients of OpenAI's API and of MCP name runs: those of others are not continued."""

from pathlib import Path
from typing import Any

from app.simulator.script import Reply, Text, ToolUse, in_turn
from tests.e2e.agents import MESSAGES
from tests.e2e.office import MAIL, office
from tests.e2e.office import settings as office_settings
from tests.e2e.stories import World, WorldOf, a_client, a_request
from tests.e2e.test_a_client_brings_tools import COLOR, PICK, settings
from tests.integration.mcp_messages import a_call, messages_in, modern

CHAT = "/openai/v1/chat/completions"
RESPONSES = "/openai/v1/responses"
HELPER = f"{MESSAGES}:helper"
SECRET = "the heron flies at dawn"


def responses_in(run_id: str, call_id: str) -> dict[str, dict[str, Any]]:
    """Responses that go on with this run."""
    result = {"type": "function_call_output", "call_id": f"{run_id}--{call_id}", "output": "red"}
    approval = {"type": "mcp_approval_response", "approval_request_id": f"mcpr_{run_id}~0.x", "approve": True}
    reference = {"type": "item_reference", "id": f"msg_{run_id}~0.0"}
    said = {"role": "user", "content": "hi"}
    return {
        "by its call": {"input": [result]},
        "by a call and another response": {"input": [result], "previous_response_id": "resp_x"},
        "by its approval": {"input": [approval]},
        "by its item": {"input": [reference, said]},
        "by its id": {"input": "hi", "previous_response_id": f"resp_{run_id}"},
        "by a part of it": {"input": "hi", "previous_response_id": f"resp_{run_id}~2", "stream": True},
        "by its conversation": {"input": "hi", "conversation": "c"},
    }


def ways_in(run_id: str, call_id: str) -> dict[str, dict[str, Any]]:
    """Chats that go on with this run."""
    result = {"role": "tool", "tool_call_id": f"{run_id}--{call_id}", "content": "red"}
    link = f"[Waiting for a person: x. http://h/approvals?runId={run_id}#0 Then send any message to go on.]"
    asked, answered = {"role": "user", "content": "hi"}, {"role": "assistant", "content": link}
    return {
        "by its call": {"model": HELPER, "messages": [result]},
        "by its notice": {"model": HELPER, "messages": [asked, answered, asked]},
        "by its notice, streamed": {"model": HELPER, "messages": [asked, answered, asked], "stream": True},
        "with another model": {"model": f"{MESSAGES}:assistant", "messages": [result]},
    }


async def a_waiting_run(world: World) -> tuple[str, str]:
    body = a_request(graphId="claude_agents:helper", clientTools=[COLOR], stateKey="c")
    run_id = await world.start(body)
    *_, call = await world.events(run_id, until="client_tool_call")
    return run_id, call.data["toolCallId"]


async def test_runs_of_others_are_not_continued(world_of: WorldOf, tmp_path: Path) -> None:
    rest = [Reply([Text(answer)]) for answer in ("Hello, foreign.", "Blue.", "Hi.")]
    script = in_turn(Reply([Text(SECRET), ToolUse(PICK, {"about": "sky"})]), *rest)
    world = await world_of(script, agent=MESSAGES, **settings(tmp_path))
    run_id, call_id = await a_waiting_run(world)
    await world.services.accounts.create_account("other")
    _, foreign = await world.services.accounts.create_key("other", ["runs:write", "runs:read"])
    _, writer = await world.services.accounts.create_key("default", ["runs:write"])

    for key, status in {foreign: 404, writer: 403}.items():
        async with a_client(world.url, key, agent=MESSAGES) as http:
            for name, body in ways_in(run_id, call_id).items():
                answer = await http.post(CHAT, json=body)
                assert answer.status_code == status, (name, answer.text)
                assert SECRET not in answer.text
            for name, body in responses_in(run_id, call_id).items():
                answer = await http.post(RESPONSES, json={"model": HELPER, **body})
                # The key of a conversation is that of another one in another account.
                expected = 200 if (key, name) == (foreign, "by its conversation") else status
                assert answer.status_code == expected, (name, answer.text)
                assert SECRET not in answer.text
            for method, path in (("GET", ""), ("GET", "?stream=true"), ("POST", "/cancel"), ("DELETE", "")):
                answer = await http.request(method, f"{RESPONSES}/resp_{run_id}{path}")
                assert answer.status_code == status, (method, path, answer.text)
    # Its own holder reads it, although it was started over another wire, and does not delete it yet.
    read = (await world.http.get(f"{RESPONSES}/resp_{run_id}")).json()
    assert [item["type"] for item in read["output"]] == ["message", "function_call"]
    assert (await world.http.delete(f"{RESPONSES}/resp_{run_id}")).status_code == 409
    wrong_model = await world.http.post(CHAT, json=ways_in(run_id, call_id)["with another model"])
    assert wrong_model.status_code == 404
    still = (await world.http.get(f"/v1/runs/{run_id}")).json()["status"]
    assert still in {"running", "waiting"}
    own = await world.http.post(CHAT, json=ways_in(run_id, call_id)["by its call"])
    assert own.json()["choices"][0]["message"]["content"] == "Blue."
    alone = await world.start(a_request("hi"))
    after_it = {"model": f"{MESSAGES}:assistant", "input": "hi", "previous_response_id": f"resp_{alone}"}
    nothing = await world.http.post(RESPONSES, json=after_it)
    assert nothing.json()["error"]["param"] == "previous_response_id"


async def test_runs_of_others_are_not_continued_by_calls(world_of: WorldOf, tmp_path: Path) -> None:
    send = Reply([Text(SECRET), ToolUse(MAIL, {"to": "a@example.org", "text": "hi"})])
    world = await world_of(in_turn(send, Reply([Text("Sent.")])), agent=MESSAGES, **office_settings(tmp_path))
    await world.services.accounts.create_account("other")
    _, foreign = await world.services.accounts.create_key(
        "other", ["runs:write", "runs:read", "runs:approve"]
    )
    _, writer = await world.services.accounts.create_key("default", ["runs:write", "runs:approve"])
    _, reader = await world.services.accounts.create_key("default", ["runs:write", "runs:read"])
    run_id = await world.start(a_request(graphId="claude_agents:mailer"))
    *_, asked = await world.events(run_id, until="permission_request")
    request_id, yes = asked.data["requestId"], {"action": "accept", "content": {"approved": True}}
    tool, approved = f"{MESSAGES}__mailer", {"requestState": run_id, "inputResponses": {request_id: yes}}
    calls: dict[str, tuple[str, str, dict[str, Any]]] = {
        "by its state": (tool, "hi", {"requestState": run_id}),
        "with an answer": (tool, "hi", approved),
        "by its name": (tool, "hi", {"arguments": {"message": "hi", "conversation": f"run:{run_id}"}}),
    }
    refused = {foreign: "run_not_found", writer: "forbidden"}

    for key, code in refused.items():
        async with a_client(world.url, key, agent=MESSAGES) as http:
            for name, (of, text, params) in calls.items():
                answer = await http.post("/mcp", **modern(a_call(of, text, **params), elicitation={}))
                assert (answer.status_code, answer.json()["error"]["data"]["code"]) == (400, code), name
            event = {"Last-Event-ID": f"{run_id}/0/%5B1%2C%20null%5D"}
            filled = {"jsonrpc": "2.0", "id": f"{run_id}/{request_id}", "result": yes}
            others = [await http.get("/mcp", headers=event), await http.post("/mcp", json=filled)]
            assert [each.json()["error"]["data"]["code"] for each in others] == [code] * 2
    async with a_client(world.url, reader, agent=MESSAGES) as http:
        answer = await http.post("/mcp", **modern(a_call(tool, "hi", **approved), elicitation={}))
        told = await http.post("/mcp", json=filled)
    assert ["runs:approve" in each.text for each in (answer, told)] == [True, True]
    other = await world.http.post("/mcp", **modern(a_call(f"{MESSAGES}__worker", "hi", requestState=run_id)))
    assert other.json()["error"]["message"] == "params.requestState: is a run of another tool"
    odd = {"requestState": run_id, "inputResponses": {"none": yes}}
    unasked = await world.http.post("/mcp", **modern(a_call(tool, "hi", **odd)))
    assert unasked.json()["error"]["data"]["errors"][0]["field"] == "params.inputResponses.none"
    assert office().sent == []
    own = await world.http.post("/mcp", **modern(a_call(tool, "hi", **approved), elicitation={}))
    assert messages_in(own.text)[-1][1]["result"]["content"][0]["text"] == "Sent."


async def test_names_of_parameters_get_into_no_header_as_they_are(world_of: WorldOf) -> None:
    world = await world_of(lambda _: Reply([Text("ok")]), agent=MESSAGES)
    body = {"model": f"{MESSAGES}:assistant", "messages": [{"role": "user", "content": "hi"}]}
    odd = {"a\r\nSet-Cookie: x": 1, "é": 1, "seed": 1, "x" * 65: 1, **{f"p{n}": 1 for n in range(100)}}

    answer = await world.http.post(CHAT, json={**body, **odd})

    assert answer.status_code == 200
    assert "set-cookie" not in answer.headers
    assert len(answer.headers["runtally-ignored"].split(", ")) == 20
