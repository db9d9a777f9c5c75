"""A run that has reached its budget waits for a higher one in no process, and goes on where it stopped."""

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from app.simulator.script import Block, Hold, Reply, Responder, Text, ToolUse, in_turn
from app.simulator.server import Simulator
from tests.e2e.agents import CLAUDE, MESSAGES, every_agent_at_length, named, without_cli
from tests.e2e.servers import a_server
from tests.e2e.stories import CLOCK, Heard, World, WorldOf, a_client, a_request, until
from tests.e2e.test_a_run_stays_within_its_means import ending
from tests.e2e.test_a_run_waits_without_a_process import kinds
from tests.e2e.test_a_waiting_run_outlives_its_server import run_in
from tests.e2e.the_bill import bill, wire
from tests.patience import PATIENCE_S

THRIFTY = "claude_agents:thrifty"
MODEL = "claude-sonnet-4-6"
FIRST = "0.0100"
"""Less than one message costs."""


def settings(directory: Path, head: str = "", *, park_after_s: str = "0.2") -> dict[str, str]:
    """A graph whose runs wait for a higher budget; `head` are more keys of it."""
    graphs = directory / "graphs"
    graphs.mkdir()
    (graphs / "thrifty.md").write_text(
        "---\ndescription: Tells the time.\ntools: [core__get_current_time]\non_budget: pause\n"
        f"{head}---\nHelp.\n"
    )
    return {"RUNTALLY_GRAPHS_DIR": str(graphs), "RUNTALLY_PARK_AFTER_S": park_after_s}


def message(block: Block, hold: Hold | None = None) -> Reply:
    """One for 0.0105 dollars."""
    usage = {"input_tokens": 1_000, "output_tokens": 1}
    return Reply([block], usage=usage, final_usage={"output_tokens": 500}, hold=hold)


def looks_twice(hold: Hold | None = None) -> Responder:
    return in_turn(message(ToolUse(CLOCK)), message(ToolUse(CLOCK)), message(Text("Noon."), hold))


async def paused(world: World, **fields: Any) -> tuple[str, dict[str, Any]]:
    """A run that waits for a higher budget in no process, and its request."""
    body = a_request("what time?", graphId=THRIFTY, model=MODEL, limits={"maxBudgetUsd": FIRST}, **fields)
    run_id = await world.start(body)
    request = (await world.events(run_id, until="budget_reached"))[-1].data
    await world.parked(run_id)
    return run_id, request


def raised(usd: Any) -> dict[str, Any]:
    return {"decision": "allow", "args": {"maxBudgetUsd": usd}}


def of_type(events: list[Heard], type_: str) -> list[dict[str, Any]]:
    return [event.data for event in events if event.type == type_]


@pytest.mark.parametrize(("agent", "chat"), [(CLAUDE, {"stateKey": "chat"}), (MESSAGES, {})])
async def test_it_goes_on_each_time_the_budget_is_raised_and_pays_for_nothing_again(
    world_of: WorldOf, tmp_path: Path, chat: dict[str, str]
) -> None:
    hold = Hold(index=0)
    world = await world_of(looks_twice(hold), **settings(tmp_path))
    run_id, first = await paused(world, **chat)
    await until(lambda: world.services.dispatcher.places.taken == 0)
    assert (await world.http.get("/v1/balance")).json()["reserved"] == 0

    await world.decide(run_id, first, **raised("0.02"))
    second = await world.first(run_id, "budget_reached", after=first)
    await world.parked(run_id)
    answers = [await world.decide(run_id, second, **raised("0.5")) for _ in range(2)]
    hold.until.set()
    events = await world.events(run_id)
    receipts = await world.receipts(run_id)

    assert [answer.status_code for answer in answers] == [200, 200]
    assert events[-1].data["finishReason"] == "stop"
    assert of_type(events, "assistant_final")[0]["content"] == "Noon."
    assert kinds(events).count("budget_reached") == kinds(events).count("permission_resolved") == 2
    assert kinds(events).count("tool_call_start") == kinds(events).count("tool_call_result") == 2
    assert len(world.simulator.requests) == len(receipts) == 3
    assert bill(receipts) == wire(world.simulator.sent)
    assert [len(each.tool_results) for each in world.simulator.requests[1:]] == [1, 1]
    assert "what time?" in str(world.simulator.requests[-1].body["messages"][0])


@every_agent_at_length
@pytest.mark.parametrize("how", ["denied", "expired"])
async def test_it_ends_as_without_a_pause_if_the_budget_stays(
    world_of: WorldOf, tmp_path: Path, how: str, database_url: str
) -> None:
    world = await world_of(looks_twice(), **settings(tmp_path))
    run_id, request = await paused(world)
    if how == "denied":
        await world.decide(run_id, request, decision="deny")
    else:
        connection = await asyncpg.connect(database_url)
        await connection.execute("UPDATE run_waits SET expires_at = now()")
        await connection.close()
    events = await world.events(run_id)

    assert ending(events) == ("rate_limit", "budget")
    (resolved,) = of_type(events, "permission_resolved")
    assert (resolved["decision"], resolved["reason"]) == ("deny", "decided" if how == "denied" else "expired")
    assert len(world.simulator.requests) == len(await world.receipts(run_id)) == 1


@without_cli
async def test_an_answer_that_needs_no_other_message_is_given(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(in_turn(message(Text("Noon."))), **settings(tmp_path))
    limits = {"maxBudgetUsd": FIRST}
    events = await world.run(a_request("what time?", graphId=THRIFTY, model=MODEL, limits=limits))

    assert events[-1].data["finishReason"] == "stop"
    assert "budget_reached" not in kinds(events)


@without_cli
async def test_a_decision_that_is_no_higher_limit_is_refused_and_the_run_waits(
    world_of: WorldOf, tmp_path: Path
) -> None:
    world = await world_of(looks_twice(), **settings(tmp_path))
    run_id, request = await paused(world, stateKey="chat")
    wrong: list[tuple[dict[str, Any], str]] = [
        (raised("0.0105"), "args.maxBudgetUsd: must be more than the run has spent"),
        (raised("0.001"), "args.maxBudgetUsd: must be more than the run has spent"),
        (raised("-1"), "args.maxBudgetUsd"),
        (raised("NaN"), "args.maxBudgetUsd"),
        (raised(0.5), "args.maxBudgetUsd"),
        ({"decision": "allow"}, "args.maxBudgetUsd"),
        ({"decision": "allow", "args": {"maxBudgetUsd": "1", "timeoutS": 9}}, "args.timeoutS"),
        (
            {"decision": "allow_conversation", "args": {"maxBudgetUsd": "1"}},
            "decision: must be allow or deny",
        ),
    ]
    for decision, problem in wrong:
        refused = await world.decide(run_id, request, **decision)
        assert (refused.status_code, problem in refused.text) == (422, True), refused.text
    other = await world.services.accounts.create_key("other", ("runs:read", "runs:approve"))
    reader = await world.services.accounts.create_key("default", ("runs:read",))
    path = f"/v1/runs/{run_id}/permissions/{request['requestId']}"
    for (_, key), status in [(other, 404), (reader, 403)]:
        async with a_client(world.url, key) as http:
            assert (await http.post(path, json=raised("1"))).status_code == status
            listed = (await http.get("/v1/approvals")).json()["items"]
            assert [each["budget"] for each in listed] == ([None] if status == 403 else [])
    listed = (await world.http.get("/v1/approvals", params={"kind": "budget"})).json()

    (waiting,) = listed["items"]
    assert listed["counts"]["budget"] == 1
    assert (waiting["kind"], waiting["requestId"]) == ("budget", request["requestId"])
    spent = {name: Decimal(amount) for name, amount in waiting["budget"].items()}
    assert spent == {"spentUsd": Decimal("0.0105"), "maxBudgetUsd": Decimal(FIRST)}
    assert "Usd" not in str(await world.events(run_id, until="status"))
    assert len(world.simulator.requests) == 1


@without_cli
async def test_of_two_answers_at_once_one_counts(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(looks_twice(), **settings(tmp_path))
    run_id, request = await paused(world)
    answers = await asyncio.gather(
        world.decide(run_id, request, **raised("1")), world.decide(run_id, request, decision="deny")
    )
    events = await world.events(run_id)

    (refused,) = [answer.json()["code"] for answer in answers if answer.status_code != 200]
    assert refused in {"permission_decided", "run_ended"}
    is_raised = answers[0].status_code == 200
    assert events[-1].data["finishReason"] == ("stop" if is_raised else "budget")
    assert len(world.simulator.requests) == (3 if is_raised else 1)


async def reached(http: httpx.AsyncClient, run_id: str, *, before: str = "") -> str:
    """The id of a request for a higher budget, other than the one before."""
    async with asyncio.timeout(PATIENCE_S), http.stream("GET", f"/v1/runs/{run_id}/events") as events:
        async for line in events.aiter_lines():
            request_id = line.partition('"requestId":"')[2].partition('"')[0]
            if '"type":"budget_reached"' in line and request_id != before:
                return request_id
    raise AssertionError


@every_agent_at_length
async def test_killed_between_the_refusal_and_parking_it_asks_again(migrated_path: Path, agent: str) -> None:
    chosen = settings(migrated_path, "retry: true\n", park_after_s="600")
    limits = {"maxBudgetUsd": FIRST}
    body = a_request("time?", runId="r", graphId=THRIFTY, model=MODEL, limits=limits, stateKey="chat")
    async with Simulator(named(agent, looks_twice())) as simulator:
        async with a_server(migrated_path, simulator.url, agent=agent, **chosen) as (server, http):
            await http.post("/v1/runs", json=body)
            lost = await reached(http, "r")
            server.kill()
        async with a_server(migrated_path, simulator.url, agent=agent, **chosen) as (_, http):
            request_id = await reached(http, "r", before=lost)
            assert len(simulator.requests) == 1
            answer = await http.post(f"/v1/runs/r/permissions/{request_id}", json=raised("1"))
            run = await run_in(http, "r", "succeeded", "failed")
            receipts = (await http.get("/v1/runs/r/receipts")).json()["items"]
        sent = list(simulator.sent)

    assert answer.status_code == 200, answer.text
    assert run["final"]["content"] == "Noon."
    # The first receipt may be one that the successor has found in the journal.
    billed = {message: (model, usage) for message, (model, _, usage) in bill(receipts).items()}
    assert billed == {message: (model, usage) for message, (model, _, usage) in wire(sent).items()}
    assert len(receipts) == 3
