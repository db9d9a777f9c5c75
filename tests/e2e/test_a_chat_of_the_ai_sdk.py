"""What the AI SDK's routes take, refuse and answer, beyond what its own clients show."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx

from app.simulator.script import ApiRequest, Hold, HttpError, Reply, Text, ToolUse, in_turn
from tests.e2e.office import MAIL, MAILER, office, settings
from tests.e2e.stories import ASSISTANT, PATIENCE_S, WorldOf, a_client

CHAT = f"/v1/ai-sdk/{ASSISTANT}/chat"
MAILS = f"/v1/ai-sdk/{MAILER}/chat"
V6 = {"X-AI-SDK-Version": "6"}
ARGS = {"to": "bob@example.org", "text": "Hello Bob"}


def says(content: str, message_id: str = "u1", role: str = "user") -> dict[str, Any]:
    return {"id": message_id, "role": role, "parts": [{"type": "text", "text": content}]}


def a_post(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"id": "chat-1", "messages": list(messages), "trigger": "submit-message", **fields}


def parts_in(stream: str) -> list[Any]:
    """The parts of a stream that ends as it should."""
    frames = [frame for frame in stream.split("\n\n") if frame.startswith("data: ")]
    assert frames[-1] == "data: [DONE]"
    return [json.loads(frame.removeprefix("data: ")) for frame in frames[:-1]]


def parts_of(response: httpx.Response) -> list[Any]:
    assert response.status_code == 200, response.text
    assert response.headers["x-vercel-ai-ui-message-stream"] == "v1"
    return parts_in(response.text)


def text_in(response: httpx.Response) -> str:
    return "".join(part["delta"] for part in parts_of(response) if part["type"] == "text-delta")


def code_of(response: httpx.Response) -> str:
    code: str = response.json()["code"]
    return code


def echo(request: ApiRequest) -> Reply:
    return Reply([Text(f"You said {len(request.messages)}: {request.last_text}")])


async def test_what_cannot_be_is_refused_before_anything_is_started(world_of: WorldOf) -> None:
    world = await world_of(in_turn())
    nowhere, post = "/v1/ai-sdk/claude_agents:nobody/chat", a_post(says("hi"))
    _, reader = await world.services.accounts.create_key("default", ["runs:read"])

    found = [
        await world.http.post(nowhere, json=post),
        await world.http.get(f"{nowhere}/chat-1/stream"),
        await world.http.post(f"{nowhere}/chat-1/stop"),
    ]
    wrong = {
        "id": await world.http.post(CHAT, json={**post, "id": "not a key"}),
        "messages.0.role": await world.http.post(CHAT, json=a_post(says("hi", role="tool"))),
        "X-AI-SDK-Version": await world.http.post(CHAT, json=post, headers={"X-AI-SDK-Version": "4"}),
        "chatId": await world.http.get(f"{CHAT}/not%20a%20key/stream"),
    }
    async with a_client(world.url, reader) as http:
        refused = [await http.post(CHAT, json=post), await http.get(f"{CHAT}/chat-1/stream")]
    plain = await world.http.post(CHAT, content=json.dumps(post), headers={"Content-Type": "text/plain"})

    assert {code_of(response) for response in found} == {"graph_not_found"}
    assert {field: response.json()["errors"][0]["field"] for field, response in wrong.items()} == {
        field: field for field in wrong
    }
    assert {code_of(response) for response in refused} == {"forbidden"}
    assert plain.status_code == 415
    assert (await world.http.get("/v1/runs")).json()["items"] == []


async def test_a_history_is_told_once_and_later_ones_are_not_read(world_of: WorldOf) -> None:
    world = await world_of(echo)
    before = (says("My name is Bob."), says("Hello Bob.", "a1", "assistant"))
    first = a_post(*before, says("Who am I?", "u2"))
    other = a_post(says("I am Al.", "x"), says("Hello Al.", "y", "assistant"), says("And now?", "u3"))

    answered = await world.http.post(CHAT, json=first)
    again = await world.http.post(CHAT, json=first)
    on = await world.http.post(CHAT, json=other)

    assert "Hello Bob." in text_in(answered)
    assert answered.text == again.text
    assert text_in(on) == "You said 3: And now?"
    session = (await world.http.get("/v1/sessions/chat-1")).json()
    assert [message["content"] for message in session["messages"] if message["type"] == "user_message"] == [
        *("My name is Bob.", "Who am I?", "And now?"),
    ]


async def test_a_message_has_one_answer(world_of: WorldOf) -> None:
    world = await world_of(echo)
    asked = a_post(says("hi"))

    await world.http.post(CHAT, json=asked)
    changed = await world.http.post(CHAT, json=a_post(says("ho"), messageId="u1"))
    anew = await world.http.post(CHAT, json={**asked, "trigger": "regenerate-message"})
    elsewhere = await world.http.post(CHAT, json={**asked, "id": "chat-2"})
    keyed = await world.http.post(CHAT, json=asked, headers={"Idempotency-Key": "k"})
    again = await world.http.post(CHAT, json=asked, headers={"Idempotency-Key": "k"})

    assert (changed.status_code, code_of(changed)) == (409, "message_changed")
    assert (anew.status_code, code_of(anew)) == (409, "answer_stands")
    assert parts_of(elsewhere)[0]["messageId"] != parts_of(keyed)[0]["messageId"]
    assert keyed.text == again.text
    assert len(world.simulator.requests) == 3


async def test_what_failed_is_asked_anew_as_often_as_it_fails(world_of: WorldOf) -> None:
    failure = HttpError(400, "invalid_request_error")
    world = await world_of(in_turn(failure, failure, Reply([Text("At last.")])))
    asked = a_post(says("hi"))
    regenerate = {**asked, "trigger": "regenerate-message"}

    first = await world.http.post(CHAT, json=asked)
    joined = await world.http.post(CHAT, json=asked)
    second = await world.http.post(CHAT, json=regenerate)
    third = await world.http.post(CHAT, json=regenerate)

    ids = [parts_of(response)[0]["messageId"] for response in (first, joined, second, third)]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3
    assert text_in(third) == "At last."
    assert len(world.simulator.requests) == 3


async def test_a_chat_that_waits_for_its_turn_is_stopped_with_the_one_before(world_of: WorldOf) -> None:
    hold = Hold(index=3)
    world = await world_of(in_turn(Reply([Text("one two")], hold=hold)))

    async with world.http.stream("POST", CHAT, json=a_post(says("first"))) as first:
        await hold.reached.wait()
        waiting = asyncio.create_task(world.http.post(CHAT, json=a_post(says("second", "u2"))))
        async with asyncio.timeout(PATIENCE_S):
            while len((await world.http.get("/v1/runs")).json()["items"]) < 2:
                await asyncio.sleep(0.02)
        stopped = await world.http.post(f"{CHAT}/chat-1/stop")
        ends = [parts_in((await first.aread()).decode()), parts_of(await waiting)]
    resumed = await world.http.get(f"{CHAT}/chat-1/stream")

    assert stopped.status_code == 202
    assert stopped.json()["runId"] == ends[1][0]["messageId"]
    assert [parts[-2]["type"] for parts in ends] == ["abort", "abort"]
    assert [part["type"] for part in ends[1]][:2] == ["start", "data-queued"]
    assert (resumed.status_code, resumed.content) == (204, b"")


async def test_another_account_finds_no_chat(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(in_turn(Reply([ToolUse(MAIL, ARGS)])), **settings(tmp_path))
    _, secret = await world.services.accounts.create_key("other", ["runs:write", "runs:approve"])
    asked = await world.http.post(MAILS, json=a_post(says("write")), headers=V6)
    answer = consent(parts_of(asked), approved=True)

    async with a_client(world.url, secret) as http:
        resumed = await http.get(f"{MAILS}/chat-1/stream")
        stopped = await http.post(f"{MAILS}/chat-1/stop")
        decided = await http.post(MAILS, json=answer, headers=V6)
    other_chat = await world.http.post(MAILS, json={**answer, "id": "chat-2"}, headers=V6)
    await world.http.post(f"{MAILS}/chat-1/stop")

    assert (resumed.status_code, stopped.status_code) == (204, 204)
    assert (code_of(decided), code_of(other_chat)) == ("run_not_found", "run_not_found")
    assert office().sent == []


async def test_consent_survives_a_reload_and_comes_once(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(
        in_turn(Reply([ToolUse(MAIL, ARGS)]), Reply([Text("So be it.")])), **settings(tmp_path)
    )

    asked = await world.http.post(MAILS, json=a_post(says("write")), headers=V6)
    resumed = await world.http.get(f"{MAILS}/chat-1/stream?version=6")
    unknown = consent(parts_of(asked), approved=True, approval_id="nobody-asked")
    not_found = await world.http.post(MAILS, json=unknown, headers=V6)
    allowed = await world.http.post(MAILS, json=consent(parts_of(asked), approved=True), headers=V6)
    again = await world.http.post(MAILS, json=consent(parts_of(asked), approved=True), headers=V6)
    late = await world.http.post(MAILS, json=consent(parts_of(asked), approved=False), headers=V6)

    assert lasting(asked) == lasting(resumed)
    assert [part["type"] for part in lasting(asked)][-3:] == [
        "tool-approval-request",
        "finish-step",
        "finish",
    ]
    assert code_of(not_found) == "permission_not_found"
    assert [part["type"] for part in lasting(allowed)][:2] == ["start", "tool-output-available"]
    assert text_in(allowed) == "So be it."
    assert lasting(allowed) == lasting(again) == lasting(late)
    assert office().sent == [("bob@example.org", "Hello Bob")]


def lasting(response: httpx.Response) -> list[Any]:
    """The parts that a chat keeps: the step may end before or after the stream does."""
    return [part for part in parts_of(response) if not part.get("transient")]


def consent(parts: list[Any], *, approved: bool, approval_id: str | None = None) -> dict[str, Any]:
    """What a chat posts once a person has answered the request in these parts."""
    (request,) = [part for part in parts if part["type"] == "tool-approval-request"]
    approval = {"id": approval_id or request["approvalId"], "approved": approved}
    call = {
        "type": "tool-office__send_mail",
        "toolCallId": request["toolCallId"],
        "state": "approval-responded",
        "input": ARGS,
        "approval": approval,
    }
    message_id = parts[0]["messageId"]
    message = {"id": message_id, "role": "assistant", "parts": [{"type": "step-start"}, call]}
    return a_post(says("write"), message, messageId=message_id)
