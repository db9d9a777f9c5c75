import asyncio
from pathlib import Path

import asyncpg
import pytest

from app.simulator.script import Answer, ApiRequest, Hold, HttpError, Reply, Text, ToolUse, in_turn
from tests.e2e.agents import CLAUDE, MESSAGES, every_agent
from tests.e2e.parking import idle_pid_files, idle_pids, parked
from tests.e2e.stories import CLOCK, Heard, World, WorldOf, a_request, cli_processes, said, until
from tests.factories import a_wait, reached_by, scripted
from tests.patience import PATIENCE_S
from tests.scripted import WriteMessage

SECRET = b"secret upstream detail"


FAILURES = [
    (HttpError(400, "invalid_request_error"), "invalid_request"),
    (HttpError(413, "request_too_large"), "invalid_request"),
    (HttpError(429, "rate_limit_error", headers={"retry-after": "0"}), "rate_limit"),
    (HttpError(529, "overloaded_error"), "provider_unavailable"),
]


async def test_an_error_of_the_provider_becomes_one_of_our_words(world_of: WorldOf) -> None:
    failures = {f"http-{failure.status}": failure for failure, _ in FAILURES}
    world = await world_of(lambda request: failures[request.last_text])

    ends = await asyncio.gather(*(world.run(a_request(name, runId=name)) for name in failures))

    for name, events, (_, error) in zip(failures, ends, FAILURES, strict=True):
        assert _end(events) == (error, "error")
        stream, run = await world.raw(name), await world.http.get(f"/v1/runs/{name}")
        assert SECRET not in stream + run.content
        assert run.json()["status"] == "failed"
        assert await world.receipts(name) == []


async def test_a_provider_that_cannot_be_reached(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), ANTHROPIC_BASE_URL="http://127.0.0.1:9")

    events = await world.run(a_request())

    assert _end(events) == ("provider_unavailable", "error")


@every_agent
async def test_a_missing_key_ends_runs_but_not_the_server(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), ANTHROPIC_API_KEY=None)

    events = await world.run(a_request())

    assert _end(events) == ("provider_unavailable", "error")
    assert world.simulator.requests == []


async def test_a_refused_key(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), ANTHROPIC_API_KEY="sk-wrong")

    events = await world.run(a_request())

    assert _end(events) == ("provider_unavailable", "error")


async def test_turns_used_up(world_of: WorldOf) -> None:
    world = await world_of(lambda _: Reply([ToolUse(CLOCK)]))

    events = await world.run(a_request(limits={"maxTurns": 2}))

    assert _end(events) == ("timeout", "max_turns")
    steps = [event.data for event in events if event.type == "step"]
    assert [(step["stepIndex"], step["stepBudget"]) for step in steps] == [(1, 2), (2, 2)]
    assert len(await world.receipts(events[0].data["runId"])) == 2


async def test_cancelling_mid_text_bills_what_was_received(world_of: WorldOf) -> None:
    hold = Hold(index=103)
    text = "".join(f"word{number:03} " for number in range(200))
    usage = {"input_tokens": 70, "output_tokens": 1, "cache_read_input_tokens": 30}
    world = await world_of(in_turn(Reply([Text(text)], usage=usage, hold=hold)))
    run_id = await world.start(a_request())
    await _heard(world, run_id, "word099")

    events = await _cancelled(world, run_id)

    assert _end(events) == ("aborted", "aborted")
    assert (await world.ended(run_id))["status"] == "cancelled"
    (receipt,) = await world.receipts(run_id)
    assert (receipt["basis"], receipt["outputEstimated"]) == ("partial", True)
    assert (receipt["inputTokens"], receipt["cacheReadTokens"]) == (70, 30)
    # What the provider counts: one token a word.
    assert receipt["outputTokens"] == len(said(events).split()) == 100
    await until(lambda: world.simulator.sent[0].disconnected)


async def test_cancelling_before_the_cli_is_up(world_of: WorldOf) -> None:
    world = await world_of(lambda _: Reply([Text("too late")], headers_delay_s=5))
    run_id = await world.start(a_request())

    events = await _cancelled(world, run_id)

    assert _end(events) == ("aborted", "aborted")
    assert await world.receipts(run_id) == []


async def test_cancelling_while_the_cli_retries(world_of: WorldOf) -> None:
    world = await world_of(lambda _: HttpError(529, "overloaded_error"))
    run_id = await world.start(a_request())
    await until(lambda: bool(world.simulator.requests))

    events = await _cancelled(world, run_id)

    assert _end(events) == ("aborted", "aborted")


async def test_cancelling_mid_tool(
    world_of: WorldOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_tools.py").write_text(SLOW_TOOL)
    (tmp_path / "graphs").mkdir()
    (tmp_path / "graphs" / "slow.md").write_text("---\ndescription: d\ntools: [slow__wait]\n---\nWait.")
    monkeypatch.syspath_prepend(tmp_path)
    call = ToolUse("mcp__runtally__slow__wait", {"marker": str(tmp_path / "started")})
    world = await world_of(
        in_turn(Reply([call]), Reply([Text("never")])),
        RUNTALLY_TOOLS="slow_tools",
        RUNTALLY_GRAPHS_DIR=tmp_path / "graphs",
    )
    run_id = await world.start(a_request(graphId="claude_agents:slow"))
    await until((tmp_path / "started").exists)

    events = await _cancelled(world, run_id)

    assert _end(events) == ("aborted", "aborted")
    (receipt,) = await world.receipts(run_id)
    assert receipt["basis"] == "final"
    assert len(world.simulator.requests) == 1


async def test_a_waiting_run_can_be_cancelled(world_of: WorldOf) -> None:
    wait = a_wait()
    executors = scripted(WriteMessage("one two", before_end=wait))
    world = await world_of(in_turn(), executors=executors, RUNTALLY_MAX_CONCURRENT_RUNS=1)
    first = await world.start(a_request())
    await reached_by(wait)
    second = await world.start(a_request())

    events = await _cancelled(world, second)

    kinds = [event.type for event in events]
    assert kinds == ["queued", *["interrupted"] * 3, "error", "done"]
    wait.until.set()
    assert (await world.ended(first))["status"] == "succeeded"


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
    assert live == [event async for event in world.follow(second)]


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


async def test_a_killed_cli_ends_the_run_and_bills_what_was_heard(world_of: WorldOf) -> None:
    hold = Hold(index=6)
    world = await world_of(in_turn(Reply([Text("one two three four")], hold=hold)))
    run_id = await world.start(a_request())
    await hold.reached.wait()
    await _heard(world, run_id, "three")

    (cli,) = cli_processes()
    cli.kill()

    run = await world.ended(run_id)
    assert (run["final"]["error"], run["final"]["finishReason"]) == ("internal", "error")
    (receipt,) = await world.receipts(run_id)
    assert receipt["basis"] == "partial"


async def test_an_answer_cut_short_is_no_success(world_of: WorldOf) -> None:
    world = await world_of(lambda _: Reply([Text("I")], stop_reason="pause_turn"))

    events = await world.run(a_request())

    assert _end(events) == ("internal", "error")
    billed = await world.receipts(events[0].data["runId"])
    assert {r["usageUnitId"] for r in billed} == {m.message_id for m in world.simulator.sent}


@pytest.mark.parametrize(("agent", "idle"), [(CLAUDE, 3), (MESSAGES, 0)], ids=["parked", "messages"])
async def test_nothing_is_left_after_ten_runs(world_of: WorldOf, tmp_path: Path, idle: int) -> None:
    def respond(request: ApiRequest) -> Answer:
        match request.last_text.partition(" ")[0]:
            case "fail":
                return HttpError(400, "invalid_request_error")
            case "tool" if not request.tool_results:
                return Reply([ToolUse(CLOCK)])
            case "cancel":
                return Reply([Text("slow " * 200)], delta_delay_s=0.05)
            case _:
                return Reply([Text("fine")])

    world = await world_of(respond, RUNTALLY_MAX_CONCURRENT_RUNS=4, RUNTALLY_IDLE_PROCESSES=idle)
    kinds = ["ok", "fail", "tool", "cancel", "cancel"]
    chats = [f"chat-{number}" for number in range(5)]
    runs = [await world.start(a_request(f"{kinds[n % 5]} {n}", stateKey=chats[n % 5])) for n in range(10)]
    cancels = [run_id for number, run_id in enumerate(runs) if kinds[number % 5] == "cancel"]
    waiting = [asyncio.create_task(_cancel_once_running(world, run_id)) for run_id in cancels]
    await asyncio.gather(*waiting)
    statuses = [(await world.ended(run_id))["status"] for run_id in runs]
    kept = parked(world)
    for chat in chats:
        await world.http.delete(f"/v1/sessions/{chat}")

    assert {status: statuses.count(status) for status in set(statuses)} == {
        "succeeded": 4,
        "failed": 2,
        "cancelled": 4,
    }
    assert bool(kept) == (idle > 0)
    await until(lambda: not parked(world))
    await until(lambda: {process.pid for process in cli_processes()} == {*idle_pids(world.services)})
    await until(lambda: {*(tmp_path / "data" / "runs").glob("server-*/*")} == idle_folders(world))
    await until(lambda: world.services.database.use.in_use == 0)


def idle_folders(world: World) -> set[Path]:
    """The folders of processes that are ready for anybody."""
    return {path.parent for path in idle_pid_files(world.services)}


SLOW_TOOL = """
import asyncio, pathlib
from pydantic import BaseModel
from runtally.tools.tool import ToolContext, ToolOutput, tool

class Args(BaseModel):
    marker: str

class Out(BaseModel):
    pass

@tool(id="slow__wait", description="Waits.", effect="read_only", redact=(), timeout_s=600)
async def wait(args: Args, context: ToolContext) -> ToolOutput[Out]:
    pathlib.Path(args.marker).touch()
    await asyncio.sleep(600)
    return ToolOutput(markdown="done", structured=Out())
"""


def _end(events: list[Heard]) -> tuple[str, str]:
    """The error and the finish reason of a run that failed."""
    error, done = events[-2:]
    assert (error.type, done.type) == ("error", "done")
    assert [event.type for event in events].count("done") == 1
    return error.data["error"], done.data["finishReason"]


async def _cancelled(world: World, run_id: str) -> list[Heard]:
    response = await world.http.post(f"/v1/runs/{run_id}/cancel")
    assert response.status_code == 202
    await world.ended(run_id)
    return await _events(world, run_id)


async def _cancel_once_running(world: World, run_id: str) -> None:
    await _heard(world, run_id, "slow")
    await world.http.post(f"/v1/runs/{run_id}/cancel")


async def _heard(world: World, run_id: str, word: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        async for event in world.follow(run_id):
            if word in event.data.get("delta", ""):
                return


async def _events(world: World, run_id: str) -> list[Heard]:
    return [event async for event in world.follow(run_id)]
