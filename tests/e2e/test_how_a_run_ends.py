import asyncio
from pathlib import Path

import asyncpg
import pytest

from app.simulator.script import Answer, ApiRequest, HttpError, Reply, Text, ToolUse, in_turn
from tests.e2e.agents import CLAUDE, MESSAGES, every_agent
from tests.e2e.parking import idle_pid_files, idle_pids, parked
from tests.e2e.stories import CLOCK, Heard, World, WorldOf, a_request, cli_processes, until
from tests.factories import a_wait, reached_by, scripted
from tests.patience import PATIENCE_S
from tests.scripted import WriteMessage

SECRET = b"secret upstream detail"


FAILURES = [
    (HttpError(400, "invalid_request_error"), "invalid_request"),
    (HttpError(429, "rate_limit_error", headers={"retry-after": "0"}), "rate_limit"),
    (HttpError(529, "overloaded_error"), "provider_unavailable"),
]


async def test_an_error_of_the_provider_becomes_one_of_our_words(world_of: WorldOf) -> None:
    failures = {f"http-{failure.status}": failure for failure, _ in FAILURES}
    world = await world_of(lambda request: failures[request.last_text])

    ends = await asyncio.gather(
        *(world.run(a_request(name, runId=name, stateKey=f"of-{name}")) for name in failures)
    )

    for name, events, (_, error) in zip(failures, ends, FAILURES, strict=True):
        assert _end(events) == (error, "error")
        stream, run = await world.raw(name), await world.http.get(f"/v1/runs/{name}")
        session = (await world.http.get(f"/v1/sessions/of-{name}")).content
        assert SECRET not in stream + run.content + session
        assert b"API Error" not in session
        assert run.json()["status"] == "failed"
        assert await world.receipts(name) == []


@every_agent
async def test_a_missing_key_ends_runs_but_not_the_server(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), ANTHROPIC_API_KEY=None)

    events = await world.run(a_request())

    assert _end(events) == ("provider_unavailable", "error")
    assert world.simulator.requests == []


async def test_a_waiting_run_that_cannot_be_started_ends_for_its_readers(
    world_of: WorldOf, database_url: str
) -> None:
    """Such as one of a later release: each reader gets every event, from the row, the log or the database."""
    wait = a_wait()
    executors = scripted(WriteMessage("one two", before_end=wait))
    world = await world_of(in_turn(), executors=executors, RUNTALLY_MAX_CONCURRENT_RUNS=1)
    await world.start(a_request())
    await reached_by(wait)
    second = await world.start(a_request())
    reading = world.follow(second)
    live = [await anext(reading)]
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(
            "UPDATE runs SET request = request::jsonb || '{\"later\": 1}' WHERE run_id = $1", second
        )
    finally:
        await connection.close()

    wait.until.set()
    live += [event async for event in reading]

    assert [event.type for event in live] == ["queued", "error", "done"]
    assert live == await world.events(second)


async def test_more_runs_than_may_wait_are_told_to_come_back(world_of: WorldOf) -> None:
    wait = a_wait()
    world = await world_of(
        in_turn(),
        executors=scripted(WriteMessage("one two", before_end=wait)),
        RUNTALLY_MAX_CONCURRENT_RUNS=1,
        RUNTALLY_MAX_QUEUED_RUNS=1,
    )
    runs = [await world.start(a_request(f"{number}", runId=f"r{number}")) for number in range(2)]

    refused = await world.http.post("/v1/runs", json=a_request(runId="r2"))
    joined = await world.http.post("/v1/runs", json=a_request("1", runId="r1"))

    assert (refused.status_code, refused.json()["code"]) == (429, "queue_full")
    assert int(refused.headers["retry-after"]) > 0
    assert refused.headers["ratelimit-policy"] == '"runs";q=2'
    assert refused.headers["ratelimit"].startswith('"runs";r=0;t=')
    assert joined.status_code == 202
    assert (await world.http.get("/v1/runs/r2")).status_code == 404
    wait.until.set()
    for run_id in runs:
        assert (await world.ended(run_id))["status"] == "succeeded"


@pytest.mark.parametrize(("agent", "idle"), [(CLAUDE, 3), (MESSAGES, 0)], ids=["parked", "messages"])
async def test_nothing_is_left_of_runs_that_ended_in_every_way(
    world_of: WorldOf, tmp_path: Path, idle: int
) -> None:
    def respond(request: ApiRequest) -> Answer:
        match request.last_text:
            case "fail":
                return HttpError(400, "invalid_request_error")
            case "tool" if not request.tool_results:
                return Reply([ToolUse(CLOCK)])
            case "cancel":
                return Reply([Text("slow " * 200)], delta_delay_s=0.05)
            case _:
                return Reply([Text("fine")])

    world = await world_of(respond, RUNTALLY_MAX_CONCURRENT_RUNS=3, RUNTALLY_IDLE_PROCESSES=idle)
    kinds = ["ok", "fail", "tool", "cancel", "cancel"]
    runs = [await world.start(a_request(kind, stateKey=f"chat-{n}")) for n, kind in enumerate(kinds)]
    await asyncio.gather(*(_cancel_once_running(world, run_id) for run_id in runs[3:]))
    statuses = [(await world.ended(run_id))["status"] for run_id in runs]
    kept = parked(world)
    for number in range(len(kinds)):
        await world.http.delete(f"/v1/sessions/chat-{number}")

    assert statuses == ["succeeded", "failed", "succeeded", "cancelled", "cancelled"]
    assert bool(kept) == (idle > 0)
    await until(lambda: not parked(world))
    await until(lambda: {process.pid for process in cli_processes()} == {*idle_pids(world.services)})
    await until(lambda: {*(tmp_path / "data" / "runs").glob("server-*/*")} == idle_folders(world))
    await until(lambda: world.services.database.use.in_use == 0)


def idle_folders(world: World) -> set[Path]:
    """The folders of processes that are ready for anybody."""
    return {path.parent for path in idle_pid_files(world.services)}


def _end(events: list[Heard]) -> tuple[str, str]:
    """The error and the finish reason of a run that failed."""
    error, done = events[-2:]
    assert (error.type, done.type) == ("error", "done")
    assert [event.type for event in events].count("done") == 1
    return error.data["error"], done.data["finishReason"]


async def _cancel_once_running(world: World, run_id: str) -> None:
    await _heard(world, run_id, "slow")
    await world.http.post(f"/v1/runs/{run_id}/cancel")


async def _heard(world: World, run_id: str, word: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        async for event in world.follow(run_id):
            if word in event.data.get("delta", ""):
                return
