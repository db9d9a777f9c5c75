"""A thread of AG-UI goes on after a stop, an error, an edit: the model gets what the client shows."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from app.simulator.script import (
    Answer,
    ApiRequest,
    Hold,
    HttpError,
    Reply,
    Text,
    ToolUse,
    blocks_of,
    text_of,
)
from tests.e2e.agents import CLAUDE, MESSAGES, without_cli
from tests.e2e.office import MAIL, office
from tests.e2e.office import settings as office_settings
from tests.e2e.parking import a_parking_world
from tests.e2e.stories import CALCULATOR, World, WorldOf
from tests.media import PIXEL, b64

Shown = list[tuple[str, str]]


@dataclass
class Client:
    """Shows messages as the protocol's own client does, and posts all of them."""

    world: World
    graph: str
    messages: list[dict[str, Any]] = field(default_factory=list)
    runs: int = 0
    snapshots: int = 0

    @property
    def shown(self) -> Shown:
        """The texts on the screen."""
        return joined(
            (each["role"], text_of(each["content"])) for each in self.messages if each.get("content")
        )

    def write(self, text: str, *attachments: dict[str, Any]) -> None:
        parts = [{"type": "text", "text": text}, *attachments]
        content = parts if attachments else text
        self.messages.append({"id": f"u-{len(self.messages)}-{text}", "role": "user", "content": content})

    def body(self, **fields: Any) -> dict[str, Any]:
        self.runs += 1
        return {"threadId": "t-1", "runId": f"r-{self.runs}", "messages": self.messages, **fields}

    async def run(self, *, until: int | None = None, **fields: Any) -> list[dict[str, Any]]:
        """Run the thread; stop reading after so many pieces of text (`abortRun`)."""
        body = self.body(**fields)
        events: list[dict[str, Any]] = []
        async with self.world.http.stream("POST", f"/v1/ag-ui/{self.graph}", json=body) as response:
            assert response.status_code == 200, await response.aread()
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    events.append(json.loads(line.removeprefix("data: ")))
                    self.apply(events[-1])
                pieces = sum(event["type"] == "TEXT_MESSAGE_CONTENT" for event in events)
                if pieces == until:
                    break
        return events

    def apply(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "MESSAGES_SNAPSHOT":
                self.snapshots += 1
                self._merge(event["messages"])
            case "TEXT_MESSAGE_START":
                self.messages.append({"id": event["messageId"], "role": event["role"], "content": ""})
            case "TEXT_MESSAGE_CONTENT":
                self.messages[-1]["content"] += event["delta"]
            case "TOOL_CALL_START":
                self._add_call(event)
            case "TOOL_CALL_ARGS":
                self.messages[-1]["toolCalls"][-1]["function"]["arguments"] += event["delta"]
            case "TOOL_CALL_RESULT":
                result = {"toolCallId": event["toolCallId"], "content": event["content"], "role": "tool"}
                self.messages.append({"id": event["messageId"], **result})
            case _:
                pass

    def _add_call(self, event: dict[str, Any]) -> None:
        call = {"id": event["toolCallId"], "type": "function"}
        call["function"] = {"name": event["toolCallName"], "arguments": ""}
        parent = event.get("parentMessageId")
        if not self.messages or self.messages[-1]["id"] != parent:
            self.messages.append({"id": parent or call["id"], "role": "assistant"})
        self.messages[-1].setdefault("toolCalls", []).append(call)

    def _merge(self, messages: list[dict[str, Any]]) -> None:
        """As @ag-ui/client does since 0.0.53: messages keep their places, new ones come last."""
        new = {message["id"]: message for message in messages}
        kept = [new.pop(message["id"]) for message in self.messages if message["id"] in new]
        self.messages = [*kept, *new.values()]


def joined(messages: Iterable[tuple[str, str]]) -> Shown:
    """Neighbouring messages of one role together: the CLI sends those of the user as one."""
    return [
        (role, "\n\n".join(text for _, text in group)) for role, group in groupby(messages, key=itemgetter(0))
    ]


def heard(request: ApiRequest) -> Shown:
    """What the model got, without the notes that a person does not see."""
    notes = {
        *("[Request interrupted by user]", "No response requested."),
        "[The conversation begins with a message of the assistant.]",
    }
    messages = [(message["role"], text_of(message["content"])) for message in request.messages]
    return joined(message for message in messages if message[1] not in notes)


@pytest.mark.parametrize("agent", [MESSAGES, pytest.param(CLAUDE, marks=pytest.mark.long)])
async def test_the_model_gets_what_the_thread_shows(world_of: WorldOf, agent: str) -> None:
    hold = Hold(index=5)
    replies: Iterator[Answer] = iter(
        [
            *(Reply([Text(text)]) for text in ("Hello.", "Blue.", "Bluer.", "Red.", "Blue, I said.")),
            Reply([Text("one two three")], hold=hold),
            Reply([Text("On.")]),
            HttpError(400, "invalid_request_error"),
            Reply([Text("At last.")]),
        ]
    )
    world = await a_parking_world(world_of, lambda _: next(replies), agent=agent)
    client = Client(world, f"{agent}:assistant")

    async def run_as_shown() -> None:
        await client.run()
        answer = client.shown[-1]
        assert [*heard(world.simulator.requests[-1]), answer] == client.shown

    client.write("hi")
    await run_as_shown()
    client.write("BLUE")
    await run_as_shown()
    blue = [*client.messages]
    client.messages.pop()
    await run_as_shown()
    client.messages[-2:] = []
    client.write("RED")
    await run_as_shown()
    assert client.snapshots == 0
    red, client.messages = client.messages, blue
    client.write("and which was it?")
    await run_as_shown()
    client.messages = red
    client.write("long")
    await client.run(until=1)
    await hold.reached.wait()
    await world.http.post("/v1/runs/r-6/cancel")
    client.write("and on")
    await run_as_shown()
    client.write("fails")
    await client.run()
    client.write("again")
    await run_as_shown()
    assert client.snapshots == 1
    stored = (await world.http.get(f"/v1/ag-ui/{agent}:assistant/threads/t-1/messages")).json()
    assert [(each["id"], each["content"]) for each in stored] == [
        (each["id"], each["content"]) for each in client.messages
    ]


async def test_another_device_continues_without_a_snapshot(world_of: WorldOf) -> None:
    call = ToolUse(CALCULATOR, {"expression": "6*7"})
    replies: Iterator[Answer] = iter(
        [Reply([Text("Let me see."), call, call]), *(Reply([Text(t)]) for t in ("42.", "Yes.", "No."))]
    )
    world = await world_of(lambda _: next(replies), agent=MESSAGES)
    graph, base = f"{MESSAGES}:assistant", f"/v1/ag-ui/{MESSAGES}:assistant/threads"
    first = Client(world, graph)
    first.write("6*7?")
    await first.run()

    second = Client(world, graph, (await world.http.get(f"{base}/t-1/messages")).json(), runs=1)
    assert second.messages == first.messages
    second.write("Sure?")
    await second.run()
    first.runs = 2
    first.write("Really?")
    await first.run()
    listed = (await world.http.get(base)).json()["items"]

    assert (first.snapshots, second.snapshots) == (0, 0)
    assert [(each["id"], each["title"]) for each in listed] == [("t-1", "6*7?")]
    assert (await world.http.get(f"/v1/ag-ui/{MESSAGES}:analyst/threads")).json()["items"] == []
    assert (await world.http.get(f"{base}/t-2/messages")).status_code == 404
    assert heard(world.simulator.requests[-1])[-1] == ("user", "Really?")
    assert "Sure?" not in str(world.simulator.requests[-1].body)


PNG = {"type": "image", "source": {"type": "data", "value": b64(PIXEL), "mimeType": "image/png"}}
NO_PDF = {"type": "document", "source": {"type": "data", "value": "VGV4dC4=", "mimeType": "application/pdf"}}
NOTE = "[An attachment of type document that cannot be read here.]"


def answers(*texts: str) -> Any:
    replies = iter(texts)
    return lambda _: Reply([Text(next(replies))])


async def seen(client: Client, *, snapshots: int = 0) -> Shown:
    """What the model got; it is what the screen shows, with the same messages as before."""
    before = [*client.messages]
    await client.run()
    assert client.snapshots == snapshots
    assert client.messages[: len(before)] == before
    found = heard(client.world.simulator.requests[-1])
    assert found == client.shown[:-1]
    return found


@without_cli
async def test_an_imported_history_stays_on_screen(world_of: WorldOf, agent: str) -> None:
    world = await world_of(answers("Hello.", "Again.", "And again.", "On."), agent=agent)
    client = Client(world, f"{agent}:assistant")
    client.messages = [{"id": "g", "role": "assistant", "content": "Hi, how can I help?"}]
    for text in ("hi", "more", "and more"):
        client.write(text)
        await seen(client)

    stored = (await world.http.get(f"/v1/ag-ui/{agent}:assistant/threads/t-1/messages")).json()
    assert [each["content"] for each in stored] == [each["content"] for each in client.messages]
    other = Client(world, f"{agent}:assistant", stored, runs=client.runs)
    other.write("on")
    await seen(other)


@without_cli
async def test_a_conversation_that_is_deleted_while_its_page_is_open_stays_there(
    world_of: WorldOf, agent: str
) -> None:
    world = await world_of(answers("One.", "Two.", "Three."), agent=agent)
    client = Client(world, f"{agent}:assistant")
    client.write("first")
    await seen(client)
    assert (await world.http.delete("/v1/sessions/t-1")).status_code == 204
    for text in ("second", "third"):
        client.write(text)
        await seen(client)


@without_cli
@pytest.mark.parametrize("known", [False, True], ids=["at the beginning", "later"])
async def test_a_refused_attachment_stays_on_screen(world_of: WorldOf, agent: str, *, known: bool) -> None:
    world = await world_of(answers("One.", "Two.", "Three."), agent=agent)
    client = Client(world, f"{agent}:assistant")
    if known:
        client.write("first")
        await seen(client)
    client.write("Sum it up.", PNG, NO_PDF)
    refused = await world.http.post(f"/v1/ag-ui/{agent}:assistant", json=client.body())
    assert refused.status_code == 422
    for text in ("Never mind the file.", "Go on."):
        client.write(text)
        before = [*client.messages]
        await client.run()
        assert (client.snapshots, client.messages[:-1]) == (0, before)
    (question,) = (each for each in client.messages if "Sum it up." in str(each["content"]))
    assert [part["type"] for part in question["content"]] == ["text", "image", "document"]
    request = world.simulator.requests[-1]
    received = [text.replace(NOTE, "").split() for _, text in heard(request)]
    assert received == [text.split() for _, text in client.shown[:-1]]
    assert len(blocks_of_all(request, "image")) == 1


def blocks_of_all(request: ApiRequest, kind: str) -> list[dict[str, Any]]:
    return [block for message in request.messages for block in blocks_of(message, kind)]


@without_cli
async def test_an_answer_that_nobody_read_takes_its_place(world_of: WorldOf, agent: str) -> None:
    call = ToolUse(CALCULATOR, {"expression": "6*7"})
    replies: Iterator[Answer] = iter(
        [
            Reply([Text("One.")]),
            Reply([Text("Let me see."), call]),
            *(Reply([Text(t)]) for t in ("42.", "Two.", "On.")),
        ]
    )
    world = await world_of(lambda _: next(replies), agent=agent)
    client = Client(world, f"{agent}:assistant")

    client.write("first")
    await client.run(until=0)
    await world.ended("r-1")
    client.write("second")
    await client.run(until=1)
    await world.ended("r-2")
    client.write("third")
    await client.run()
    client.write("fourth")
    before = [*client.messages]
    await client.run()

    assert client.messages[:-1] == before
    texts = [(role, text) for role, text in client.shown if role != "tool"]
    assert joined(texts[:-1]) == joined(each for each in heard(world.simulator.requests[-1]) if each[1])
    assert joined(texts) == [
        *(("user", "first"), ("assistant", "One."), ("user", "second"), ("assistant", "Let me see.\n\n42.")),
        *(("user", "third"), ("assistant", "Two."), ("user", "fourth"), ("assistant", "On.")),
    ]


@without_cli
async def test_a_person_moves_on_from_an_approval(world_of: WorldOf, tmp_path: Path, agent: str) -> None:
    mail = ToolUse(MAIL, {"to": "bob@example.org", "text": "hi"})
    replies: Iterator[Answer] = iter([Reply([mail]), Reply([Text("Something else, then.")])])
    world = await world_of(lambda _: next(replies), agent=agent, **office_settings(tmp_path))
    client = Client(world, f"{agent}:mailer")
    client.write("Write to Bob.")
    (interrupt,) = (await client.run())[-1]["outcome"]["interrupts"]

    client.write("No, tell me a joke.")
    cancelled = [{"interruptId": interrupt["id"], "status": "cancelled"}]
    end = (await client.run(resume=cancelled))[-1]

    assert end["outcome"] == {"type": "success"}
    assert (await world.ended("r-1"))["status"] == "cancelled"
    assert client.snapshots == 0
    assert heard(world.simulator.requests[-1])[-1] == ("user", "No, tell me a joke.")
    assert office().sent == []
    client.runs -= 1
    again = await client.world.http.post(f"/v1/ag-ui/{client.graph}", json=client.body(resume=cancelled))
    assert again.status_code == 200
    assert len(world.simulator.requests) == 2
