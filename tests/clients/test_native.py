"""The native wire with common clients: packages for Node, `httpx-sse`, curl, typed TypeScript."""

import asyncio
import json
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

from app.simulator.script import HttpError, Reply, Text, ToolUse, in_turn
from tests.clients.node import HERE, compile_typescript, node
from tests.clients.quick_starts import programs
from tests.e2e.agents import MESSAGES, without_cli
from tests.e2e.stories import CALCULATOR, KEY, World, WorldOf, a_request, events_only, positions
from tests.patience import PATIENCE_S
from tests.programs import require

NASTY = "one\u2028two\u2029three\u0085four\r\nfive \U0001f469\u200d\U0001f680 \x0b six"
HUGE = "x" * 300_000


async def received_events(world: World, run_id: str) -> list[dict[str, Any]]:
    """The events that `httpx-sse` receives."""
    received = await world.events(run_id)
    return [{"id": str(event.id), "type": event.type, "data": event.data} for event in received]


READERS = {
    # It reconnects once more after the end, and gets a 204.
    "eventsource": [200, 200, 204],
    "fetch-event-source": [200, 200],
    "fetch-event-source, post": [200, 200],
}
"""The clients, and the statuses of their connections."""
BEFORE_THE_FIRST, AMID_AN_EVENT, AMID_A_LONG_LINE = 0, 700, 150_000
CUTS = [
    # Not within an event: it takes an event for received when it has read its id.
    ("fetch-event-source", BEFORE_THE_FIRST),
    ("fetch-event-source, post", BEFORE_THE_FIRST),
    ("eventsource", AMID_AN_EVENT),
    ("eventsource", AMID_A_LONG_LINE),
]


@without_cli
async def test_a_reader_that_reconnects_receives_every_event_once_and_stops(world_of: WorldOf) -> None:
    world = await world_of(
        in_turn(
            Reply([Text(NASTY), ToolUse(CALCULATOR, {"expression": "6*7"})]),
            Reply([Text(HUGE), Text(" end")]),
        )
    )
    body = a_request(runId="wire-1", graphId=f"{MESSAGES}:analyst")
    await world.run(body)

    readers = [{"client": client, "cutAfter": cut} for client, cut in CUTS]
    given = {"url": world.url, "key": KEY, "body": body, "readers": readers}
    read = json.loads(await node("native.mjs", given=json.dumps(given)))

    events = await received_events(world, "wire-1")
    deltas = [event["data"]["delta"] for event in events if event["type"] == "text_delta"]
    assert "".join(deltas) == NASTY + HUGE + " end"
    for reader, got in zip(readers, read, strict=True):
        assert got["statuses"] == READERS[str(reader["client"])], reader
        assert got["received"] == events, reader
    assert len(world.simulator.requests) == 2


@without_cli
async def test_curl_shows_the_events_and_resumes_after_one(world_of: WorldOf) -> None:
    """The documented command, and the same request again."""
    require("curl")
    world = await world_of(lambda _: Reply([Text(NASTY)]))
    (_, documented), *_ = programs("api/runs.md", "sh")
    command = documented.replace("https://runtally.example.org", world.url).replace("rt_…", KEY)
    command = command.replace("claude_agents:", f"{MESSAGES}:").replace("curl ", "curl -sS ").strip()

    events = await shell(command)
    (run,) = (await world.http.get("/v1/runs")).json()["items"]
    again = f"{command} -H 'Idempotency-Key: once'"
    first, rest = await shell(again), await shell(f"{again} -H 'Last-Event-ID: 2'")
    other = await shell(f"{command} -H 'Last-Event-ID: 2'")
    ended = f"-H 'Authorization: Bearer {KEY}' -H 'Last-Event-ID: {positions(events)[-1]}'"
    status = f"curl -sS -o /dev/null -w '%{{http_code}}' {ended}"
    end = await shell(f"{status} {world.url}/v1/runs/{run['runId']}/events")

    assert events_only(events) == await world.raw(run["runId"])
    ids = positions(events)
    assert [positions(each) for each in (first, rest, other)] == [ids, ids[2:], ids]
    assert first.endswith(rest.partition(b"\n")[2])
    assert (end, len(world.simulator.requests)) == (b"204", 3)


async def shell(command: str) -> bytes:
    """What a command prints."""
    process = await asyncio.create_subprocess_shell(command, stdout=PIPE, stderr=PIPE)
    output, errors = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert (process.returncode, errors) == (0, b""), errors
    return output


@without_cli
async def test_streamed_events_have_the_types_of_the_document(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(
        in_turn(
            Reply([Text("Let me see."), ToolUse(CALCULATOR, {"expression": "6*7"})]),
            Reply([Text("42")]),
            HttpError(400, "invalid_request_error"),
            Reply([Text("Again."), ToolUse(CALCULATOR, {"expression": "6*7"})]),
            Reply([Text("42")]),
        )
    )
    events = [*await world.run(a_request()), *await world.run(a_request())]
    streamed = json.dumps([event.data for event in events])
    program = (HERE / "typed.ts").read_text().replace("[/* what was streamed */]", streamed)
    program = program.replace("[/* what AG-UI was told */]", await events_over_ag_ui(world))
    (tmp_path / "typed.ts").write_text(program)

    document = (await world.http.get("/openapi.json")).text
    await compile_typescript(tmp_path, "typed.ts", document=document, check_only=True)

    assert {event.type for event in events} >= {"tool_call_result", "assistant_final", "error", "done"}


async def events_over_ag_ui(world: World) -> str:
    posted = {"threadId": "t-1", "runId": "r-1", "messages": [{"id": "u", "role": "user", "content": "hi"}]}
    response = await world.http.post(f"/v1/ag-ui/{MESSAGES}:assistant", json=posted)
    lines = response.raise_for_status().text.split("\n")
    events = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    assert '"type":"RUN_FINISHED"' in events[-1]
    return f"[{','.join(events)}]"
