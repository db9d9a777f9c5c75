import json
from decimal import Decimal
from pathlib import Path

import psutil

from app.simulator.script import Hold, Reply, Text, ToolUse, in_turn, text_of
from tests.e2e.agents import every_agent, without_cli
from tests.e2e.office import WORKER, settings
from tests.e2e.stories import (
    CLOCK,
    Heard,
    World,
    WorldOf,
    a_request,
    until,
)
from tests.e2e.the_bill import bill, wire

CENT = 100_000
"""Credits."""


async def prepaid(world: World, credits_: int) -> None:
    """Let the account pay in advance, and give it this much."""
    account_id = await world.account_id()
    await world.services.ledger.change_mode(account_id, "prepaid")
    if credits_:
        await world.services.ledger.grant(account_id, credits_)


def ending(events: list[Heard]) -> tuple[str, str]:
    error, done = events[-2:]
    return error.data["error"], done.data["finishReason"]


@without_cli
async def test_a_tool_knows_what_is_left_to_the_run(world_of: WorldOf, tmp_path: Path, agent: str) -> None:
    asks = Reply([ToolUse("mcp__runtally__office__describe_call")], final_usage={"output_tokens": 1000})
    world = await world_of(in_turn(asks, Reply([Text("I see.")])), **settings(tmp_path))
    limits = {"maxBudgetUsd": "0.50", "timeoutS": 60}

    await world.run(a_request(graphId=WORKER, stateKey="chat-1", model="claude-haiku-4-5", limits=limits))

    (told,) = world.simulator.requests[-1].tool_results
    graph, conversation, in_time, left = json.loads(text_of(told["content"]))
    assert (graph, conversation, in_time) == (f"{agent}:worker", "chat-1", True)
    # A thousand tokens cost 0.005 dollars. The call may come before its message has ended.
    assert Decimal("0.494") < Decimal(left) <= Decimal("0.5")


@every_agent
async def test_a_run_ends_with_the_credit(world_of: WorldOf) -> None:
    # Each message costs 3 cents and more.
    usage = {"input_tokens": 10_000, "output_tokens": 1}
    world = await world_of(lambda _: Reply([ToolUse(CLOCK)], usage=usage))
    await prepaid(world, 5 * CENT)

    events = await world.run(a_request(model="claude-sonnet-4-6"))

    assert ending(events) == ("insufficient_credits", "budget")
    receipts = await world.receipts(events[0].data["runId"])
    assert len(receipts) == 2
    assert bill(receipts) == wire(world.simulator.sent)
    credit = await world.services.ledger.balance(await world.account_id())
    assert credit.balance == 5 * CENT - sum(receipt["chargedCredits"] for receipt in receipts)
    assert credit.reserved == 0


@without_cli
async def test_a_run_ends_with_a_budget_of_its_end_user(world_of: WorldOf) -> None:
    # Each message costs 3 cents and more.
    usage = {"input_tokens": 10_000, "output_tokens": 1}
    world = await world_of(lambda _: Reply([ToolUse(CLOCK)], usage=usage))
    limit = {"scope": "endUser", "window": "total", "usd": "0.05", "mode": "hard"}
    soft = {"scope": "account", "window": "total", "usd": "0.01", "mode": "soft"}
    for name, budget in (("per-user", limit), ("alarm", soft)):
        (await world.http.put(f"/v1/budgets/{name}", json=budget)).raise_for_status()

    events = await world.run(a_request(model="claude-sonnet-4-6", endUser="ann"))
    refused = await world.http.post("/v1/runs", json=a_request(endUser="ann"))
    other = await world.http.post("/v1/runs", json=a_request(endUser="bob"))
    shown = (await world.http.get("/v1/budgets/per-user")).json()

    assert ending(events) == ("budget_reached", "budget")
    assert (events[-2].data["budget"], events[-2].data.get("resetsAt")) == ("per-user", None)
    receipts = await world.receipts(events[0].data["runId"])
    assert len(receipts) == 2
    assert bill(receipts) == wire(world.simulator.sent[:2])
    assert (refused.status_code, refused.json()["code"]) == (402, "budget_reached")
    assert (refused.json()["budget"], refused.json()["resetsAt"]) == ("per-user", None)
    assert (other.status_code, other.headers["runtally-budget-reached"]) == (202, "alarm")
    assert Decimal(shown["spentUsd"]) == sum(Decimal(each["costUsd"]) for each in receipts)
    assert await world.ended(other.json()["runId"])


@without_cli
async def test_a_run_goes_on_while_the_database_is_away(world_of: WorldOf, database_url: str) -> None:
    hold = Hold(index=4)
    world = await world_of(in_turn(Reply([ToolUse(CLOCK)], hold=hold), Reply([Text("done")])))
    run_id = await world.start(a_request())
    await hold.reached.wait()
    backends = [
        process
        for process in psutil.process_iter(["cmdline"])
        if database_url.rpartition("/")[2] in " ".join(process.info["cmdline"] or ())
    ]
    assert backends

    for process in backends:
        process.suspend()
    hold.until.set()
    await until(lambda: len(world.simulator.sent) == 2 and world.simulator.sent[1].final_usage is not None)
    for process in backends:
        process.resume()

    run = await world.ended(run_id)
    assert run["final"]["ok"] is True
    assert bill(await world.receipts(run_id)) == wire(world.simulator.sent)
