from decimal import Decimal
from pathlib import Path

import psutil
import pytest

from app.billing.credit.ledger import AccountTerms
from app.simulator.script import Hold, Reply, Text, ToolUse, in_turn
from tests.e2e.agents import CLAUDE, MESSAGES, every_agent, without_cli
from tests.e2e.stories import (
    CLOCK,
    PROVIDER_KEY,
    Heard,
    World,
    WorldOf,
    a_request,
    cli_processes,
    contents_below,
    shown_by,
    until,
)
from tests.e2e.the_bill import bill, wire

CENT = 100_000
"""Credits."""


async def prepaid(world: World, credits_: int) -> None:
    """Let the account pay in advance, and give it this much."""
    account_id = await world.account_id()
    await world.services.ledger.change_terms(account_id, lambda _: AccountTerms("prepaid", None))
    if credits_:
        await world.services.ledger.grant(account_id, credits_)


def ending(events: list[Heard]) -> tuple[str, str]:
    error, done = events[-2:]
    return error.data["error"], done.data["finishReason"]


async def test_an_account_without_credit_starts_nothing(world_of: WorldOf) -> None:
    world = await world_of(in_turn())
    await prepaid(world, 0)

    refused = await world.http.post("/v1/runs", json=a_request(runId="poor-1"))

    assert refused.status_code == 402
    assert refused.json()["code"] == "insufficient_credits"
    assert (await world.http.get("/v1/runs/poor-1")).status_code == 404
    assert world.simulator.requests == []


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
async def test_runs_at_once_do_not_spend_the_same_credit(world_of: WorldOf) -> None:
    hold = Hold(index=4)
    world = await world_of(lambda _: Reply([Text("one two")], hold=hold))
    await prepaid(world, 5 * CENT)
    first = await world.start(a_request())
    await hold.reached.wait()

    second = await world.http.post("/v1/runs", json=a_request())

    # The first one has set all of it aside: its longest answer would cost more.
    assert second.status_code == 402
    hold.until.set()
    await world.ended(first)
    assert (await world.http.post("/v1/runs/wait", json=a_request())).json()["ok"] is True


@without_cli
async def test_a_monthly_budget_stops_an_account(world_of: WorldOf) -> None:
    usage = {"input_tokens": 10_000, "output_tokens": 1}
    world = await world_of(lambda _: Reply([Text("dear")], usage=usage))
    await world.services.ledger.change_terms(
        await world.account_id(), lambda _: AccountTerms("postpaid", CENT)
    )

    first = await world.http.post("/v1/runs/wait", json=a_request(model="claude-sonnet-4-6"))
    second = await world.http.post("/v1/runs", json=a_request())

    assert first.json()["ok"] is True
    assert second.status_code == 402


@pytest.mark.parametrize(
    ("agent", "stop_reason"),
    [*((MESSAGES, each) for each in ("tool_use", "max_tokens", "refusal", None)), (CLAUDE, "max_tokens")],
)
async def test_a_budget_is_passed_by_one_message_at_most(world_of: WorldOf, stop_reason: str) -> None:
    usage = {"input_tokens": 1_000, "output_tokens": 1}
    world = await world_of(
        lambda _: Reply(
            [Text("more"), ToolUse(CLOCK)] if stop_reason else [],
            stop_reason=stop_reason,
            usage=usage,
            final_usage={"output_tokens": 500},
        )
    )

    events = await world.run(a_request(model="claude-sonnet-4-6", limits={"maxBudgetUsd": "0.015"}))

    receipts = await world.receipts(events[0].data["runId"])
    costs = [Decimal(receipt["costUsd"]) for receipt in receipts]
    assert sum(costs[:-1]) < Decimal("0.015")
    assert bill(receipts) == wire(world.simulator.sent)


@without_cli
async def test_a_budget_holds_for_a_model_nobody_has_a_price_for(world_of: WorldOf) -> None:
    usage = {"input_tokens": 10_000, "output_tokens": 1}
    world = await world_of(lambda _: Reply([ToolUse(CLOCK)], usage=usage, model="claude-unheard-of-9"))

    events = await world.run(a_request(model="claude-sonnet-4-6", limits={"maxBudgetUsd": "0.05"}))

    assert ending(events) == ("rate_limit", "budget")
    assert len(await world.receipts(events[0].data["runId"])) == 2


@every_agent
async def test_no_call_is_let_through_after_the_deadline(world_of: WorldOf) -> None:
    world = await world_of(lambda _: Reply([ToolUse(CLOCK)], delta_delay_s=0.8))

    events = await world.run(a_request(limits={"timeoutS": 3}))

    assert ending(events) == ("timeout", "timeout")
    sent = [each.message_id for each in world.simulator.sent]
    # Each takes 0.8 s and more: fewer than its eight turns.
    assert len(sent) <= 3 / 0.8 + 1
    billed, told = bill(await world.receipts(events[0].data["runId"])), wire(world.simulator.sent)
    # What was on its way when the last one was cut off, nobody has read.
    whole = sent[:-1]
    assert {name: billed[name] for name in whole} == {name: told[name] for name in whole}
    assert billed.keys() <= told.keys()


async def test_a_model_without_a_price_is_refused(world_of: WorldOf) -> None:
    world = await world_of(in_turn())

    refused = await world.http.post("/v1/runs", json=a_request(model="claude-unheard-of-9"))

    assert (refused.status_code, refused.json()["code"]) == (422, "model_not_priced")
    assert refused.json()["errors"][0]["field"] == "model"


@without_cli
async def test_a_model_nobody_asked_for_keeps_its_tokens(world_of: WorldOf) -> None:
    world = await world_of(in_turn(Reply([Text("hi")], model="claude-unheard-of-9")))

    events = await world.run(a_request())

    assert events[-1].data["finishReason"] == "stop"
    (receipt,) = await world.receipts(events[0].data["runId"])
    assert (receipt["basis"], receipt["model"]) == ("unpriced", "claude-unheard-of-9")
    assert (receipt["inputTokens"], receipt["outputTokens"], receipt["chargedCredits"]) == (10, 20, 0)


@without_cli
async def test_an_operators_own_price_is_charged(world_of: WorldOf, tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text(
        "prices: [{model: claude-house-1, unlisted: true, since: 2026-01-01, "
        "input: '1000000', output: '2000000'}]"
    )
    world = await world_of(in_turn(Reply([Text("hi")])), RUNTALLY_PRICES_FILE=prices, RUNTALLY_MARKUP="1.5")

    events = await world.run(a_request(model="claude-house-1"))

    (receipt,) = await world.receipts(events[0].data["runId"])
    assert receipt["costUsd"] == "50.0000000000"
    assert receipt["chargedCredits"] == 750_000_000


async def test_the_provider_key_is_nowhere_near_an_agent(world_of: WorldOf, tmp_path: Path) -> None:
    hold = Hold(index=4)
    world = await world_of(in_turn(Reply([Text("one two")], hold=hold)))
    run_id = await world.start(a_request())
    await hold.reached.wait()

    seen = shown_by(cli_processes())
    files = contents_below(tmp_path / "data" / "runs")
    hold.until.set()
    await world.ended(run_id)
    assert "ANTHROPIC_API_KEY" in seen
    assert PROVIDER_KEY not in seen
    assert files
    assert not any(PROVIDER_KEY.encode() in content for content in files)
    assert world.simulator.requests[0].headers["x-api-key"] == PROVIDER_KEY


@every_agent
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
