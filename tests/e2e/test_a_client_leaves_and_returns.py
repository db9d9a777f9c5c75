from app.simulator.script import Reply, Responder, Text, ToolUse, in_turn
from tests.e2e.agents import without_cli
from tests.e2e.stories import CLOCK, OpenWorld, World, WorldOf, a_request, events_only
from tests.factories import scripted
from tests.scripted import WriteMessage

WORDS = "one two three four five six seven eight nine ten \u2028 eleven \U0001f600 twelve"


@without_cli
async def test_resuming_gives_the_bytes_of_an_undisturbed_reader(world_of: WorldOf) -> None:
    world = await world_of(a_script())
    undisturbed = await _stream_bytes(world, a_request(runId="resume-1"))
    last = undisturbed.count(b"id: ")

    for position in range(last + 1):
        kept = b"".join(part + b"\n\n" for part in undisturbed.split(b"\n\n")[:position])
        header = await world.raw("resume-1", headers={"Last-Event-ID": str(position)})
        query = await world.raw("resume-1", params={"after": position})
        assert kept + header == undisturbed
        assert header == query


@without_cli
async def test_a_restarted_server_replays_the_same_bytes(open_world: OpenWorld) -> None:
    async with open_world(a_script()) as world:
        undisturbed = await _stream_bytes(world, a_request(runId="restart-1"))

    async with open_world(in_turn()) as again:
        replayed = await again.raw("restart-1")
        rest = await again.raw("restart-1", headers={"Last-Event-ID": "4"})

    assert replayed == undisturbed
    assert undisturbed.endswith(rest)
    assert rest.startswith(b"id: 5\n")


async def test_the_stream_is_fit_for_proxies_and_browsers(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), executors=scripted(WriteMessage(WORDS)))

    response = await world.http.post("/v1/runs/stream", json=a_request())

    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-store, no-transform"
    assert response.headers["x-accel-buffering"] == "no"
    assert response.content.startswith(b"retry: 2000\nid: 1\n")
    assert response.content.isascii()
    assert b"\r" not in response.content


async def test_an_idempotency_key_stands_in_for_a_run_id(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), executors=scripted(WriteMessage("once")))
    headers = {"Idempotency-Key": "order 66"}

    answers = [await world.http.post("/v1/runs/wait", json=a_request(), headers=headers) for _ in range(2)]

    assert answers[0].json() == answers[1].json()
    assert len((await world.http.get("/v1/runs")).json()["items"]) == 1


def a_script() -> Responder:
    return in_turn(Reply([Text("Let me see."), ToolUse(CLOCK, {"timezone": "UTC"})]), Reply([Text(WORDS)]))


async def _stream_bytes(world: World, body: dict[str, object]) -> bytes:
    response = await world.http.post("/v1/runs/stream", json=body)
    return events_only(response.raise_for_status().content)
