"""What the AI SDK's routes take, refuse and answer, beyond what its own clients show."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.simulator.script import Answer, ApiRequest, Hold, HttpError, Reply, Text, ToolUse, in_turn, text_of
from tests.e2e.agents import CLAUDE, MESSAGES
from tests.e2e.office import MAIL, office, settings
from tests.e2e.parking import a_parking_world
from tests.e2e.stories import WorldOf, a_client, events_only
from tests.media import PIXEL, b64

CHAT = "/v1/ai-sdk/messages:assistant/chat"
MAILS = "/v1/ai-sdk/messages:mailer/chat"
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


def message_id_of(response: httpx.Response) -> str:
    """The id of the answer."""
    message_id: str = parts_of(response)[0]["messageId"]
    return message_id


def text_of_ui(message: dict[str, Any]) -> str:
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


def conversation_of(request: ApiRequest) -> list[tuple[str, str]]:
    """What the model got."""
    return [(message["role"], text_of(message["content"])) for message in request.messages]


def without_notes(messages: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Without what the executors write after an interruption, which a person does not see."""
    notes = {"[Request interrupted by user]", "No response requested."}
    return [message for message in messages if message[1] not in notes]


def code_of(response: httpx.Response) -> str:
    code: str = response.json()["code"]
    return code


def echo(request: ApiRequest) -> Reply:
    return Reply([Text(f"You said {len(request.messages)}: {request.last_text}")])


async def test_what_cannot_be_is_refused_before_anything_is_started(world_of: WorldOf) -> None:
    world = await world_of(in_turn())
    nowhere, post = "/v1/ai-sdk/messages:nobody/chat", a_post(says("hi"))
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


async def test_a_history_is_told_once_and_what_a_chat_lacks_is_a_branch(world_of: WorldOf) -> None:
    world = await world_of(echo, agent=MESSAGES)
    before = (says("My name is Bob."), says("Hello Bob.", "a1", "assistant"))
    first = a_post(*before, says("Who am I?", "u2"))

    answered = await world.http.post(CHAT, json=first)
    again = await world.http.post(CHAT, json=first)
    known = says("whatever the client shows", message_id_of(answered), "assistant")
    on = await world.http.post(CHAT, json=a_post(*before, known, says("And now?", "u3")))
    foreign = (says("I am Al.", "x"), says("Hello Al.", "y", "assistant"))
    other = await world.http.post(CHAT, json=a_post(*foreign, says("And I?", "u4")))
    empty = await world.http.post(CHAT, json=a_post(says("hi", "u5")))
    without_view = a_post(says("So?", "u6"))
    del without_view["trigger"]
    appended = await world.http.post(CHAT, json=without_view)

    assert events_only(answered.content) == events_only(again.content)
    assert [text_in(response) for response in (answered, on, other, empty, appended)] == [
        *("You said 3: Who am I?", "You said 5: And now?", "You said 3: And I?", "You said 1: hi"),
        "You said 3: So?",
    ]
    heard = [conversation_of(request) for request in world.simulator.requests]
    assert heard[0] == [("user", "My name is Bob."), ("assistant", "Hello Bob."), ("user", "Who am I?")]
    assert heard[2] == [("user", "I am Al."), ("assistant", "Hello Al."), ("user", "And I?")]
    assert (await world.http.get("/v1/sessions/chat-1")).json()["branches"] == 3


@pytest.mark.parametrize("agent", [MESSAGES, pytest.param(CLAUDE, marks=pytest.mark.long)])
async def test_the_model_gets_what_the_chat_shows(world_of: WorldOf, agent: str) -> None:
    hold = Hold(index=5)
    replies: Iterator[Answer] = iter(
        [
            *(Reply([Text(text)]) for text in ("Hello.", "Blue.", "Bluer.", "Red.")),
            Reply([Text("one two three")], hold=hold),
            Reply([Text("Stopped.")]),
            HttpError(400, "invalid_request_error"),
            Reply([Text("At last.")]),
        ]
    )
    world = await a_parking_world(world_of, lambda _: next(replies), agent=agent)
    chat, view = f"/v1/ai-sdk/{agent}:assistant/chat", [says("hi", "u1")]

    async def post(**fields: Any) -> str:
        """Post what the chat shows, and show the answer; returns its id."""
        parts = parts_of(await world.http.post(chat, json=a_post(*view, **fields)))
        text = "".join(part["delta"] for part in parts if part["type"] == "text-delta")
        answer_id: str = parts[0]["messageId"]
        view.append(says(text, answer_id, "assistant"))
        return answer_id

    async def expect_the_same() -> None:
        """The last request contains the messages before the last answer, and the server shows all."""
        shown = [(each["role"], each["parts"][0]["text"]) for each in view if each["parts"][0]["text"]]
        has_answer = bool(view[-1]["parts"][0]["text"])
        assert conversation_of(world.simulator.requests[-1]) == shown[: len(shown) - has_answer]
        stored = (await world.http.get(f"{chat}/chat-1/messages")).json()
        assert [(each["role"], text_of_ui(each)) for each in stored] == shown

    await post()
    view.append(says("BLUE", "u2"))
    blue = await post()
    view.pop()
    bluer = await post(trigger="regenerate-message", messageId=blue)
    await expect_the_same()
    view[-2:] = [says("RED", "u2")]
    await post(messageId="u2")
    await expect_the_same()
    view.append(says("long", "u3"))
    async with world.http.stream("POST", chat, json=a_post(*view)) as stream:
        await hold.reached.wait()
        await world.http.post(f"{chat}/chat-1/stop")
        parts = parts_in((await stream.aread()).decode())
    said = "".join(part["delta"] for part in parts if part["type"] == "text-delta")
    view += [says(said, parts[0]["messageId"], "assistant"), says("and on", "u4")]
    await post()
    stopped = without_notes(conversation_of(world.simulator.requests[-1]))
    assert stopped == [(each["role"], each["parts"][0]["text"]) for each in view[:-1]]
    view.append(says("again", "u5"))
    await post()
    view.pop()
    await post(trigger="regenerate-message")
    failed = without_notes(conversation_of(world.simulator.requests[-1]))
    assert failed == [(each["role"], each["parts"][0]["text"]) for each in view[:-1]]
    assert len({blue, bluer}) == 2


async def test_a_post_that_is_repeated_joins_its_run(world_of: WorldOf) -> None:
    hold = Hold(index=5)
    later = [Reply([Text(text)]) for text in ("C.", "D.")]
    replies = iter([Reply([Text("A.")]), Reply([Text("B b b")], hold=hold), *later])
    world = await world_of(lambda _: next(replies), agent=MESSAGES)
    asked = a_post(says("hi"))
    regenerate = {**asked, "trigger": "regenerate-message"}

    first = [await world.http.post(CHAT, json=asked) for _ in range(2)]
    both = [asyncio.create_task(world.http.post(CHAT, json=regenerate)) for _ in range(2)]
    await hold.reached.wait()
    both.append(asyncio.create_task(world.http.post(CHAT, json=asked)))
    hold.until.set()
    second = [await each for each in both]
    third = await world.http.post(CHAT, json=regenerate)
    key = {"Idempotency-Key": "k"}
    keyed = [await world.http.post(CHAT, json=regenerate, headers=key) for _ in range(2)]
    branches = (await world.http.get("/v1/sessions/chat-1/branches")).json()

    assert {text_in(each) for each in first} == {"A."}
    assert {text_in(each) for each in second} == {"B b b"}
    assert text_in(third) == "C."
    assert {text_in(each) for each in keyed} == {"D."}
    assert [each["runs"] for each in branches["items"]] == [1, 1, 1, 1]


async def test_a_message_is_answered_anew_once_its_answer_is_deleted(world_of: WorldOf) -> None:
    world = await world_of(echo, agent=MESSAGES)
    asked = a_post(says("hi"))

    async def answer() -> str:
        both = [message_id_of(await world.http.post(CHAT, json=asked)) for _ in range(2)]
        assert both[0] == both[1]
        return both[0]

    first = await answer()
    await world.http.delete("/v1/sessions/chat-1")
    second = await answer()
    shown = (await world.http.get(f"{CHAT}/chat-1/messages")).json()
    await world.http.delete("/v1/sessions/chat-1")
    other = message_id_of(await world.http.post(CHAT, json=a_post(says("hello", "u0"))))
    third = await answer()
    await world.http.delete(f"/v1/runs/{third}")
    fourth = await answer()
    branches = (await world.http.get("/v1/sessions/chat-1/branches")).json()["items"]

    assert [each["id"] for each in shown if each["role"] == "assistant"] == [second]
    assert len({first, second, other, third, fourth}) == len(world.simulator.requests) == 5
    assert [each["lastRun"] for each in branches] == [other, third, fourth]


async def test_an_attachment_that_is_refused_does_not_end_the_chat(world_of: WorldOf) -> None:
    world = await world_of(echo, agent=MESSAGES)
    away = {"type": "file", "mediaType": "image/png", "url": "https://example.org/a.png"}
    look = {**says("Look."), "parts": [*says("Look.")["parts"], away]}

    refused = await world.http.post(CHAT, json=a_post(look))
    on = await world.http.post(CHAT, json=a_post(look, says("Never mind.", "u2")))

    assert refused.json()["errors"][0]["field"] == "messages.0.parts.1.url"
    assert text_in(on).endswith("Never mind.")
    texts = [text for _, text in conversation_of(world.simulator.requests[0])]
    assert any("Look." in text for text in texts)
    assert any("attachment" in text for text in texts)


async def test_attachments_of_a_resent_chat_that_are_too_many_together_are_left_out(
    world_of: WorldOf,
) -> None:
    world = await world_of(echo, agent=MESSAGES, RUNTALLY_MAX_ATTACHMENTS=2)

    def ui(message_id: str, images: int) -> dict[str, Any]:
        file = {"type": "file", "mediaType": "image/png", "url": f"data:image/png;base64,{b64(PIXEL)}"}
        text = says(f"Look: {message_id}", message_id)["parts"]
        return {"id": message_id, "role": "user", "parts": [*[file] * images, *text]}

    def ag_ui(message_id: str, images: int) -> dict[str, Any]:
        image = {"type": "image", "source": {"type": "data", "value": b64(PIXEL), "mimeType": "image/png"}}
        text = {"type": "text", "text": f"Look: {message_id}"}
        return {"id": message_id, "role": "user", "content": [*[image] * images, text]}

    async def post(wire: str, *messages: dict[str, Any]) -> httpx.Response:
        if wire == "ui":
            return await world.http.post(CHAT, json=a_post(*messages))
        body = {"threadId": "t-1", "runId": f"r-{messages[-1]['id']}", "messages": messages}
        return await world.http.post("/v1/ag-ui/messages:assistant", json=body)

    answer = {
        "ui": says("A.", "a1", "assistant"),
        "ag_ui": {"id": "a1", "role": "assistant", "content": "A."},
    }
    for wire, message in (("ui", ui), ("ag_ui", ag_ui)):
        chat = [message("u1", 2), answer[wire], message("u2", 1), answer[wire], message("u3", 1)]
        refused = [
            await post(wire, *chat[:-1], message("u4", 3)),
            await post(wire, message("u0", 2), message("u4", 3)),
        ]
        sent = await post(wire, *chat)
        assert sent.status_code == 200, sent.text
        named = [response.json()["errors"][0]["field"] for response in refused]
        part = {"ui": "parts", "ag_ui": "content"}[wire]
        assert named == [f"messages.4.{part}.2", f"messages.1.{part}.2"]
        kinds = [
            [block["type"] for block in each["content"]]
            for each in world.simulator.requests[-1].messages
            if each["role"] == "user"
        ]
        assert kinds == [["text", "text", "text"], ["image", "text"], ["image", "text"]]


async def test_a_chat_that_waits_for_its_turn_is_stopped_with_the_one_before(world_of: WorldOf) -> None:
    hold = Hold(index=3)
    world = await world_of(in_turn(Reply([Text("one two")], hold=hold)), agent=MESSAGES)

    async with world.http.stream("POST", CHAT, json=a_post(says("first"))) as first:
        await hold.reached.wait()
        waiting = asyncio.create_task(world.http.post(CHAT, json=a_post(says("second", "u2"))))
        await world.accepted(runs=2)
        stopped = await world.http.post(f"{CHAT}/chat-1/stop")
        ends = [parts_in((await first.aread()).decode()), parts_of(await waiting)]
    resumed = await world.http.get(f"{CHAT}/chat-1/stream")

    assert stopped.status_code == 202
    assert stopped.json()["runId"] == ends[1][0]["messageId"]
    assert [parts[-2]["type"] for parts in ends] == ["abort", "abort"]
    assert [part["type"] for part in ends[1]][:2] == ["start", "data-queued"]
    assert (resumed.status_code, resumed.content) == (204, b"")


async def test_another_account_finds_no_chat(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(in_turn(Reply([ToolUse(MAIL, ARGS)])), agent=MESSAGES, **settings(tmp_path))
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
    replies = in_turn(Reply([ToolUse(MAIL, ARGS)]), Reply([Text("So be it.")]))
    world = await world_of(replies, agent=MESSAGES, **settings(tmp_path))

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
