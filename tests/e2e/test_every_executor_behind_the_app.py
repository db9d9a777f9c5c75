"""What every executor does, as clients and billing see it."""

import asyncio
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from app.executors.scripted import CallTool, TakeMessage, WriteMessage
from app.usage.records import TokenUsage
from tests.e2e.executors import EXECUTORS, OpenExecutor
from tests.e2e.stories import World, a_request, said, until_sent
from tests.factories import a_wait, reached_by
from tests.patience import PATIENCE_S

CLOCK = "core__get_current_time"


@pytest.fixture(params=sorted(EXECUTORS))
def open_executor(request: pytest.FixtureRequest, tmp_path: Path, database_url: str) -> OpenExecutor:
    return partial(EXECUTORS[request.param], tmp_path, database_url)


async def events_of(world: World, run_id: str) -> list[Any]:
    async with asyncio.timeout(PATIENCE_S):
        return [event async for event in world.follow(run_id)]


async def test_a_run_streams_its_text_and_is_charged_per_message(open_executor: OpenExecutor) -> None:
    usage = TokenUsage(input_tokens=100, output_tokens=7)
    async with open_executor(WriteMessage("Hello dear reader", usage)) as world:
        events = await world.run(a_request(runId="r"))
        receipts = await world.receipts("r")

    kinds = [event.type for event in events]
    assert (kinds[0], kinds[-2:]) == ("run_started", ["assistant_final", "done"])
    assert said(events) == events[-2].data["content"] == "Hello dear reader"
    assert [event.id for event in events] == list(range(1, len(events) + 1))
    assert [(receipt["inputTokens"], receipt["outputTokens"]) for receipt in receipts] == [(100, 7)]
    assert events[-1].data["usage"] == {"promptTokens": 100, "completionTokens": 7}


async def test_a_tool_call_is_shown_and_its_message_charged(open_executor: OpenExecutor) -> None:
    actions = [CallTool(CLOCK, {"timezone": "UTC"}), WriteMessage("It is late.")]
    async with open_executor(*actions) as world:
        events = await world.run(a_request(runId="r"))
        receipts = await world.receipts("r")

    (start,) = [event.data for event in events if event.type == "tool_call_start"]
    (result,) = [event.data for event in events if event.type == "tool_call_result"]
    assert (start["toolName"], start["args"]) == (CLOCK, {"timezone": "UTC"})
    assert (result["toolCallId"], result["isError"]) == (start["toolCallId"], False)
    assert events[-2].data["content"] == "It is late."
    assert len(receipts) == 2


async def test_a_tool_outside_the_request_is_not_called(open_executor: OpenExecutor) -> None:
    async with open_executor(CallTool(CLOCK, {}), WriteMessage("No clock.")) as world:
        events = await world.run(a_request(toolIds=[]))

    results = [event.data for event in events if event.type == "tool_call_result"]
    assert all(result["isError"] for result in results)
    assert events[-2].data["content"] == "No clock."


async def test_a_cancelled_run_ends_and_its_open_message_is_charged(open_executor: OpenExecutor) -> None:
    wait = a_wait()
    async with open_executor(WriteMessage("one two three", before_end=wait)) as world:
        await world.start(a_request(runId="r"))
        await reached_by(wait)
        assert (await world.http.post("/v1/runs/r/cancel")).is_success
        events = await events_of(world, "r")
        receipts = await world.receipts("r")
        wait.until.set()

    states = [event.data["state"] for event in events if event.type == "interrupted"]
    assert states == ["requested", "acknowledged", "stopped"]
    assert [event.data["error"] for event in events if event.type == "error"] == ["aborted"]
    assert events[-1].data["finishReason"] == "aborted"
    assert [receipt["basis"] for receipt in receipts] == ["partial"]


# A process must have started and written before its deadline, whatever else the machine does.
@pytest.mark.parametrize(("executor", "timeout_s"), [("scripted", 1), ("claude", 6), ("messages", 1)])
async def test_a_run_is_stopped_at_its_deadline(
    tmp_path: Path, database_url: str, executor: str, timeout_s: int
) -> None:
    wait = a_wait()
    message = WriteMessage("one two three", before_end=wait)
    async with EXECUTORS[executor](tmp_path, database_url, message) as world:
        run_id = await world.start(a_request(limits={"timeoutS": timeout_s}))
        events = await events_of(world, run_id)
        receipts = await world.receipts(run_id)
        run = await world.ended(run_id)
        wait.until.set()

    assert [event.data["error"] for event in events if event.type == "error"] == ["timeout"]
    assert events[-1].data["finishReason"] == "timeout"
    # The CLI passes on the last words with whatever comes after them.
    assert said(events).startswith("one two")
    assert run["final"]["content"] == said(events)
    assert [receipt["basis"] for receipt in receipts] == ["partial"]


async def test_no_message_is_requested_beyond_the_limit_of_turns(open_executor: OpenExecutor) -> None:
    async with open_executor(CallTool(CLOCK, {}), WriteMessage("too late")) as world:
        events = await world.run(a_request(runId="r", limits={"maxTurns": 1}))
        receipts = await world.receipts("r")

    assert events[-1].data["finishReason"] == "max_turns"
    assert said(events) == ""
    assert len(receipts) == 1


async def test_a_message_to_a_running_agent_is_answered(open_executor: OpenExecutor) -> None:
    wait = a_wait()
    first = WriteMessage("one two three", before_end=wait)
    async with open_executor(first, TakeMessage(), WriteMessage("Yes.")) as world:
        await world.start(a_request(runId="r"))
        await reached_by(wait)
        body = {"content": "still there?", "priority": "next"}
        sending = asyncio.create_task(world.http.post("/v1/runs/r/messages", json=body))
        await until_sent(world, "r")
        wait.until.set()
        answer = (await sending).json()
        events = await events_of(world, "r")
        receipts = await world.receipts("r")

    (delivered,) = [event for event in events if event.type == "user_message"]
    assert (delivered.data["content"], delivered.id) == ("still there?", answer["position"])
    assert events[-2].data["content"] == "Yes."
    assert len(receipts) == 2


async def test_a_reader_that_leaves_changes_nothing(open_executor: OpenExecutor) -> None:
    wait = a_wait()
    async with open_executor(WriteMessage("one two three", before_end=wait)) as world:
        async for event in world.stream(a_request(runId="r")):
            if event.type == "text_delta":
                break
        await reached_by(wait)
        wait.until.set()
        run = await world.ended("r")
        events = await events_of(world, "r")

    assert run["final"]["content"] == "one two three"
    assert all(before.id + 1 == after.id for before, after in pairwise(events))


async def test_a_preview_starts_nothing(open_executor: OpenExecutor) -> None:
    async with open_executor() as world:
        preview = await world.http.post("/v1/runs/preview", json=a_request("what would you do?"))
        runs = (await world.http.get("/v1/runs")).json()["items"]

    assert preview.status_code == 200
    assert "what would you do?" in preview.text
    assert runs == []
