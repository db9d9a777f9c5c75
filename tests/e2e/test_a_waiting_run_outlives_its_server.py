"""Servers are killed around the answer to a parked run: its tool runs once, whatever happens."""

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.simulator.script import ApiRequest, Reply, Text, ToolUse, blocks_of
from app.simulator.server import Simulator
from tests.e2e.agents import CLAUDE, MESSAGES, every_agent_at_length, named
from tests.e2e.noting_tool import NOTE, NOTER, noted, settings
from tests.e2e.servers import a_server
from tests.e2e.stories import a_request, until
from tests.patience import PATIENCE_S, until_shown


def one_note(request: ApiRequest) -> Reply:
    has_result = any(blocks_of(message, "tool_result") for message in request.messages)
    return Reply([Text("So be it.")] if has_result else [ToolUse(NOTE, {"text": "buy milk"})])


async def run_in(http: httpx.AsyncClient, run_id: str, *statuses: str) -> dict[str, Any]:
    """The run, once it has one of these statuses."""
    run: dict[str, Any] = await until_shown(http, f"/v1/runs/{run_id}", lambda run: run["status"] in statuses)
    return run


async def allow(http: httpx.AsyncClient, run_id: str) -> None:
    """Allow the call that the run waits with."""
    async with asyncio.timeout(PATIENCE_S), http.stream("GET", f"/v1/runs/{run_id}/events") as events:
        async for line in events.aiter_lines():
            if '"type":"permission_request"' in line:
                request_id = line.partition('"requestId":"')[2].partition('"')[0]
                break
    answer = await http.post(f"/v1/runs/{run_id}/permissions/{request_id}", json={"decision": "allow"})
    assert answer.status_code == 200, answer.text


async def events_of(http: httpx.AsyncClient, run_id: str) -> list[str]:
    text = (await http.get(f"/v1/runs/{run_id}/events")).text
    return [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event: ")]


@pytest.mark.parametrize(
    ("agent", "state_key"),
    # In a conversation, with the CLI: see test_parked_calls_are_made_before_the_agent_goes_on.
    [(CLAUDE, None), (MESSAGES, "chat")],
)
async def test_killed_while_it_waits(migrated_path: Path, state_key: str | None, agent: str) -> None:
    chosen = settings(migrated_path)
    body = a_request(runId="r", graphId=NOTER, **({} if state_key is None else {"stateKey": state_key}))
    async with Simulator(named(agent, one_note)) as simulator:
        async with a_server(migrated_path, simulator.url, agent=agent, **chosen) as (server, http):
            await http.post("/v1/runs", json=body)
            await run_in(http, "r", "waiting")
            server.kill()
        async with a_server(migrated_path, simulator.url, agent=agent, **chosen) as (_, http):
            await run_in(http, "r", "waiting")
            assert noted(migrated_path) == []
            await allow(http, "r")
            run = await run_in(http, "r", "succeeded", "failed")
            events = await events_of(http, "r")
            receipts = (await http.get("/v1/runs/r/receipts")).json()["items"]
        sent = len(simulator.requests)

    assert run["final"]["content"] == "So be it."
    assert noted(migrated_path) == ["buy milk"]
    assert events.count("permission_request") == events.count("permission_resolved") == 1
    assert events.count("tool_call_start") == events.count("tool_call_result") == 1
    assert sent == len(receipts) == 2


@every_agent_at_length
async def test_killed_after_the_answer_and_before_the_call(migrated_path: Path, agent: str) -> None:
    """The only place is taken meanwhile: the run is queued when its server is killed."""
    chosen = {**settings(migrated_path), "RUNTALLY_MAX_CONCURRENT_RUNS": "1"}

    def respond(request: ApiRequest) -> Reply:
        if request.last_text == "hang":
            return Reply([Text("slow " * 600)], delta_delay_s=0.1)
        return one_note(request)

    async with Simulator(named(agent, respond)) as simulator:
        async with a_server(migrated_path, simulator.url, agent=agent, **chosen) as (server, http):
            await http.post("/v1/runs", json=a_request(runId="r", graphId=NOTER))
            await run_in(http, "r", "waiting")
            await http.post("/v1/runs", json=a_request("hang", runId="other"))
            await run_in(http, "other", "running")
            await allow(http, "r")
            await run_in(http, "r", "queued")
            server.kill()
        async with a_server(migrated_path, simulator.url, agent=agent, **chosen) as (_, http):
            run = await run_in(http, "r", "succeeded", "failed")

    assert run["final"]["content"] == "So be it."
    assert noted(migrated_path) == ["buy milk"]


@pytest.mark.parametrize(
    ("agent", "retry"),
    # What the model is told differs, how a run ends that is not tried again does not.
    [(CLAUDE, "true"), (MESSAGES, "true"), (MESSAGES, "false")],
)
async def test_killed_during_the_call_it_is_not_made_again(
    migrated_path: Path, retry: str, agent: str
) -> None:
    chosen = settings(migrated_path, retry=retry)
    (migrated_path / "hang").touch()
    async with Simulator(named(agent, one_note)) as simulator:
        async with a_server(migrated_path, simulator.url, agent=agent, **chosen) as (server, http):
            await http.post("/v1/runs", json=a_request(runId="r", graphId=NOTER, stateKey="chat"))
            await run_in(http, "r", "waiting")
            await allow(http, "r")
            await until(lambda: noted(migrated_path) == ["buy milk"])
            server.kill()
        (migrated_path / "hang").unlink()
        async with a_server(migrated_path, simulator.url, agent=agent, **chosen) as (_, http):
            run = await run_in(http, "r", "succeeded", "failed")
            told = str(simulator.requests[-1].messages)

    assert noted(migrated_path) == ["buy milk"]
    if retry == "true":
        assert run["final"]["content"] == "So be it."
        assert re.search("may have taken effect|outcome is unknown", told)
    else:
        assert run["final"]["error"] == "internal"
