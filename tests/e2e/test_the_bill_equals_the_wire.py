"""Everything a run can do to its bill, through the API, with the real SDK and CLI."""

import asyncio
import csv
import io
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from app.billing.statements.records import month_after, month_start
from app.billing.statements.service import SETTLED_AFTER, StatementMaker
from app.platform.clock.clock import Clock
from app.simulator.script import (
    ApiRequest,
    Block,
    Hold,
    HttpError,
    Reply,
    Responder,
    Text,
    Thinking,
    ToolUse,
    in_turn,
)
from tests.e2e.agents import CLAUDE, every_agent, named
from tests.e2e.parking import a_parking_world, pid_file, pool_of, process_of
from tests.e2e.stories import ANALYST, CALCULATOR, CLOCK, World, WorldOf, a_request, until
from tests.e2e.the_bill import bill, wire

CACHED = {
    "input_tokens": 120,
    "output_tokens": 2,
    "cache_read_input_tokens": 1000,
    "cache_creation_input_tokens": 300,
    "cache_creation": {"ephemeral_5m_input_tokens": 200, "ephemeral_1h_input_tokens": 100},
}

FREE = {"input_tokens": 0, "output_tokens": 0}


def a_tool_loop() -> Responder:
    blocks: list[Block] = [
        Thinking("Hm."),
        Text("So."),
        ToolUse(CLOCK),
        ToolUse(CALCULATOR, {"expression": "1 + 1"}),
    ]
    return in_turn(
        Reply(blocks, usage=CACHED, final_usage={"output_tokens": 211}),
        Reply([ToolUse(CALCULATOR, {"expression": "2 + 2"})], final_usage={"output_tokens": 31}),
        Reply([Text("Done.")], usage={"input_tokens": 600, "output_tokens": 1}),
    )


CASES: dict[str, tuple[Callable[[], Responder], dict[str, Any], str | set[str]]] = {
    "a tool loop with several blocks": (a_tool_loop, {}, "stop"),
    "overloaded twice, then an answer": (
        lambda: in_turn(HttpError(529, "overloaded_error"), HttpError(529), Reply([Text("at last")])),
        {},
        "stop",
    ),
    "rate limited, then an answer": (
        lambda: in_turn(
            HttpError(429, "rate_limit_error", headers={"retry-after": "0"}), Reply([Text("ok")])
        ),
        {},
        "stop",
    ),
    "not found when streamed, answered in one piece": (
        lambda: lambda request: Reply([Text("whole")]) if not request.body.get("stream") else HttpError(404),
        {},
        "stop",
    ),
    "cut before the first block": (
        lambda: in_turn(Reply([Text("lost")], cut_after=2), Reply([Text("kept")])),
        {},
        "stop",
    ),
    "cut inside the first block": (
        lambda: in_turn(
            Reply([Text("one two three four")], usage=CACHED, cut_after=6), Reply([Text("kept")])
        ),
        {},
        "stop",
    ),
    "cut after a block": (
        lambda: (
            lambda request: (
                Reply([Text("one two"), Text("three four")], cut_after=7, delta_delay_s=0.05)
                if len(request.messages) == 1
                else Reply([Text("kept")])
            )
        ),
        {},
        # If the connection is gone before the CLI has read the whole block, it does not continue.
        {"stop", "error"},
    ),
    "an error in the middle of a stream": (
        lambda: lambda _: Reply([Text("one two three four")], error_after=(5, "overloaded_error")),
        {},
        "error",
    ),
    "continuations to their end": (
        lambda: lambda _: Reply([Text("on and on")], stop_reason="max_tokens"),
        {},
        "length",
    ),
    "compressed answers": (
        lambda: in_turn(Reply([ToolUse(CLOCK)], encoding="gzip"), Reply([Text("noon")], encoding="deflate")),
        {},
        "stop",
    ),
    "empty messages": (lambda: lambda _: Reply([]), {}, "stop"),
    "a refusal": (lambda: lambda _: Reply([Text("No.")], stop_reason="refusal"), {}, "refused"),
    "a full context": (
        lambda: lambda _: Reply([Text("on")], stop_reason="model_context_window_exceeded"),
        {},
        "context",
    ),
    "another model serves": (lambda: in_turn(Reply([Text("hi")], model="claude-opus-4-5")), {}, "stop"),
    "numbers that come with the end only": (
        lambda: in_turn(
            Reply(
                [Text("hi")],
                usage={"input_tokens": 0, "output_tokens": 0},
                final_usage={"input_tokens": 77, "output_tokens": 5, "cache_read_input_tokens": 9},
            )
        ),
        {},
        "stop",
    ),
    # A process serves turns with equal limits only: those without come first.
    "turns used up": (lambda: lambda _: Reply([ToolUse(CLOCK)]), {"maxTurns": 2}, "max_turns"),
    "continuations that ignore the turns": (
        lambda: lambda _: Reply([Text("on and on")], stop_reason="max_tokens"),
        {"maxTurns": 1},
        "length",
    ),
    "the dollar budget used up": (
        lambda: lambda _: Reply([ToolUse(CLOCK)], usage={"input_tokens": 10_000, "output_tokens": 1}),
        {"maxBudgetUsd": "0.05"},
        "budget",
    ),
    "the token budget used up": (lambda: lambda _: Reply([ToolUse(CLOCK)]), {"maxTotalTokens": 50}, "budget"),
}


ENDS_WITHOUT_PROCESS = {
    # Only the CLI asks for an answer in one piece.
    "not found when streamed, answered in one piece": "error",
    "cut after a block": "stop",
}


IN_A_FRESH_PROCESS = ["a tool loop with several blocks"]
"""All others are turns of a conversation, too, and the turn after an error gets a fresh process."""


@every_agent
async def test_the_bill_equals_the_wire(world_of: WorldOf, agent: str) -> None:
    """Every case is a run of its own; only the CLI's cost a process."""
    world, runs = await world_of(in_turn()), list[str]()
    for case in IN_A_FRESH_PROCESS if agent == CLAUDE else CASES:
        a_responder, limits, ends = CASES[case]
        ends = ends if agent == CLAUDE else ENDS_WITHOUT_PROCESS.get(case, ends)
        world.simulator.responder = named(agent, a_responder())
        before = len(world.simulator.sent)

        events = await world.run(a_request(graphId=ANALYST, model="claude-sonnet-4-6", limits=limits))

        assert events[-1].data["finishReason"] == ends, case
        if len(world.simulator.sent) > before:
            runs.append(events[0].data["runId"])
        else:
            assert await world.receipts(events[0].data["runId"]) == [], case
    await assert_exact(world, *runs)


async def test_the_bill_of_a_conversations_process_equals_the_wire(world_of: WorldOf) -> None:
    """Every case is a turn of one conversation, in the process of the turn before if it is still of use."""
    world = await a_parking_world(world_of, in_turn())
    runs: list[str] = []
    parked_with: dict[str, Any] | None = None
    for case, (a_responder, limits, ends) in CASES.items():
        body = a_request(graphId=ANALYST, model="claude-sonnet-4-6", limits=limits, stateKey="chat")
        if limits != parked_with:
            world.simulator.responder = lambda _: Reply([Text("hello")], usage=FREE, final_usage=FREE)
            runs.append((await world.run(body))[0].data["runId"])
        before = process_of(world, "chat")
        world.simulator.responder = as_first_turn(a_responder())

        events = await world.run(body)

        runs.append(events[0].data["runId"])
        assert events[-1].data["finishReason"] in ({ends} if isinstance(ends, str) else ends), case
        is_parked = [int(pid_file(each).read_text()) for each in pool_of(world).parked()] == [before.pid]
        assert is_parked or events[-1].data["finishReason"] != "stop", case
        parked_with = limits if is_parked else None
    await assert_exact(world, *runs)


@every_agent
async def test_a_cancel_at_any_event_pays_for_what_came(world_of: WorldOf, agent: str) -> None:
    """Hang up while the provider holds the event: before it, between blocks, and at the very end."""
    blocks: list[Block] = [Thinking("let me think"), Text("it is so")]
    world, runs = await world_of(in_turn()), list[str]()
    for number, cancelled_at in enumerate((4, 8) if agent == CLAUDE else (2, 4, 6, 8)):
        hold = Hold(index=cancelled_at)
        world.simulator.responder = in_turn(Reply(blocks, usage=CACHED, hold=hold))
        runs.append(await world.start(a_request(graphId=ANALYST)))
        await hold.reached.wait()

        await world.http.post(f"/v1/runs/{runs[-1]}/cancel")

        run = await world.ended(runs[-1])
        assert run["final"]["finishReason"] == "aborted"
        await until(partial(is_disconnected, world, number))
    await assert_exact(world, *runs)


def is_disconnected(world: World, number: int) -> bool:
    return world.simulator.sent[number].disconnected


@every_agent
async def test_many_runs_at_once_are_not_mixed_up(world_of: WorldOf) -> None:
    world = await world_of(
        lambda request: (
            Reply([Text("done")], final_usage={"output_tokens": 7})
            if request.tool_results
            else Reply([ToolUse(CLOCK)], final_usage={"output_tokens": int(request.last_text)})
        )
    )

    runs = await asyncio.gather(*(world.start(a_request(str(number))) for number in range(100, 102)))

    for number, run_id in enumerate(runs, start=100):
        await world.ended(run_id)
        assert [r["outputTokens"] for r in await world.receipts(run_id)] == [number, 7]
    await assert_exact(world, *runs)
    await assert_stated(world, *runs)


def as_first_turn(responder: Responder) -> Responder:
    """A responder for the next turn of a conversation that gets that turn's messages only."""
    earlier: list[int] = []

    def later(request: ApiRequest) -> Any:
        messages = request.body["messages"]
        earlier.append(len(messages) - 1)
        return responder(replace(request, body={**request.body, "messages": messages[earlier[0] :]}))

    return later


async def assert_exact(world: World, *run_ids: str) -> None:
    """Zero missing, zero extra, zero different; and the sums follow."""
    receipts = [receipt for run_id in run_ids for receipt in await world.receipts(run_id)]
    assert bill(receipts) == wire(world.simulator.sent) != {}
    balance = await world.services.ledger.balance(await world.account_id())
    assert balance.spent == sum(receipt["chargedCredits"] for receipt in receipts)
    assert balance.reserved == 0
    exported = csv.DictReader(io.StringIO((await world.http.get("/v1/ledger?format=csv")).text))
    debits = {row["receiptId"]: -int(row["credits"]) for row in exported if row["kind"] == "debit"}
    assert debits == {receipt["id"]: receipt["chargedCredits"] for receipt in receipts}
    for run_id in run_ids:
        billing = (await world.http.get(f"/v1/runs/{run_id}")).json()["billing"]
        assert billing["meters"]["gateway"] == billing["receipts"]
        assert billing["drift"] == 0
        # Only the CLI counts dollars of its own.
        comparison = billing["costComparison"] or {"driftUsd": None}
        assert comparison["driftUsd"] in {None, "0.0000000000"}


async def assert_stated(world: World, *run_ids: str) -> None:
    """The statements of the months in which receipts were used are their sums."""
    receipts = [receipt for run_id in run_ids for receipt in await world.receipts(run_id)]
    months = sorted({receipt["usedAt"][:7] for receipt in receipts})
    due = month_start(month_after(months[-1])) + SETTLED_AFTER
    services = world.services
    await StatementMaker(services.database, services.chain, Clock(host=lambda: due)).make_due()

    for month in months:
        of_month = [receipt for receipt in receipts if receipt["usedAt"].startswith(month)]
        stated = (await world.http.get(f"/v1/statements/{month}")).json()
        assert stated["charges"] == -sum(receipt["chargedCredits"] for receipt in of_month)
        for parts in (stated["byModel"], stated["byGraph"], stated["byKey"]):
            assert sum(part["credits"] for part in parts) == stated["charges"]
            assert sum(part["messages"] for part in parts) == len(of_month)
    assert stated["closing"] == (await services.ledger.balance(await world.account_id())).balance
