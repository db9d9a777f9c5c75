"""A thread of AG-UI goes on after a stop, an error, an edit: the model gets what the client shows."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

from app.simulator.script import Answer, ApiRequest, Hold, HttpError, Reply, Text, ToolUse, text_of
from tests.e2e.agents import MESSAGES, every_agent
from tests.e2e.parking import a_parking_world
from tests.e2e.stories import CALCULATOR, World, WorldOf

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
        return joined((each["role"], each["content"]) for each in self.messages if each.get("content"))

    def write(self, text: str) -> None:
        self.messages.append({"id": f"u-{len(self.messages)}-{text}", "role": "user", "content": text})

    async def run(self, *, until: int | None = None) -> list[dict[str, Any]]:
        """Run the thread; stop reading after so many pieces of text (`abortRun`)."""
        self.runs += 1
        body = {"threadId": "t-1", "runId": f"r-{self.runs}", "messages": self.messages}
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
                self.messages = event["messages"]
            case "TEXT_MESSAGE_START":
                self.messages.append({"id": event["messageId"], "role": event["role"], "content": ""})
            case "TEXT_MESSAGE_CONTENT":
                self.messages[-1]["content"] += event["delta"]
            case "TOOL_CALL_START":
                call = {"id": event["toolCallId"], "type": "function"}
                call["function"] = {"name": event["toolCallName"], "arguments": ""}
                parent = event.get("parentMessageId")
                if not self.messages or self.messages[-1]["id"] != parent:
                    self.messages.append({"id": parent or call["id"], "role": "assistant"})
                self.messages[-1].setdefault("toolCalls", []).append(call)
            case "TOOL_CALL_ARGS":
                self.messages[-1]["toolCalls"][-1]["function"]["arguments"] += event["delta"]
            case "TOOL_CALL_RESULT":
                result = {"toolCallId": event["toolCallId"], "content": event["content"], "role": "tool"}
                self.messages.append({"id": event["messageId"], **result})
            case _:
                pass


def joined(messages: Iterable[tuple[str, str]]) -> Shown:
    """Neighbouring messages of one role together: the CLI sends those of the user as one."""
    return [
        (role, "\n\n".join(text for _, text in group)) for role, group in groupby(messages, key=itemgetter(0))
    ]


def heard(request: ApiRequest) -> Shown:
    """What the model got, without the notes that a person does not see."""
    notes = {"[Request interrupted by user]", "No response requested."}
    messages = [(message["role"], text_of(message["content"])) for message in request.messages]
    return joined(message for message in messages if message[1] not in notes)


@every_agent
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
