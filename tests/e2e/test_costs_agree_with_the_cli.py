"""What a run cost by the CLI's own total and by our price list, with the real SDK and CLI.

The CLI is the second opinion: it must agree on everything that it counts, and what it does not count must be
named instead of raising an alarm.
"""

from decimal import Decimal
from pathlib import Path
from typing import Any

from app.simulator.script import Reply, Text, in_turn
from tests.e2e.parking import a_parking_world
from tests.e2e.stories import World, WorldOf, a_request
from tests.provider.usage_objects import Iteration, TokenCounts, UsageObject

OPUS, SONNET, ADVISOR = "claude-opus-5-5", "claude-sonnet-4-6", "claude-opus-4-8"
COUNTS = TokenCounts(input=1_001, output=2_003, cache_read=3_007, cache_write_5m=4_009, cache_write_1h=5_011)


def reporting(usage: UsageObject, **fields: Any) -> Reply:
    return Reply([Text("hello")], usage=usage.started(), final_usage=usage.ended(), **fields)


async def compared(world: World, reply: Reply, *, model: str, **fields: Any) -> dict[str, Any]:
    world.simulator.responder = in_turn(reply)
    run_id = await world.start(a_request(model=model, **fields))
    run = await world.ended(run_id)
    # A run that is stopped because of its budget may end before the CLI has reported a total.
    assert run["final"]["finishReason"] != "budget", run["final"]
    billing: dict[str, Any] = run["billing"]
    assert billing["drift"] == 0
    return {**billing["costComparison"], "costUsd": billing["costUsd"]}


OWN_PRICE = """
prices:
  - {model: claude-sonnet-4-6, since: 2020-01-01, input: "7", output: "77"}
"""

EVERYTHING_IT_COUNTS = UsageObject(
    COUNTS,
    inference_geo="us",
    speed="fast",
    thinking_tokens=5,
    server_tools={"web_search_requests": 3, "web_fetch_requests": 4},
    iterations=[
        Iteration("message", COUNTS),
        Iteration("advisor_message", TokenCounts(5_000, 100, cache_read=30), ADVISOR),
    ],
)


async def test_the_cli_agrees_on_all_that_it_counts(world_of: WorldOf, tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text(OWN_PRICE)
    world = await a_parking_world(world_of, in_turn(), RUNTALLY_PRICES_FILE=prices)

    found = await compared(world, reporting(EVERYTHING_IT_COUNTS), model=OPUS)
    # An operator's own price is none of the CLI's business; nor is the turn before in a conversation.
    own = [
        await compared(world, reporting(UsageObject(COUNTS)), model=SONNET, stateKey="chat") for _ in range(2)
    ]

    assert (found["driftUsd"], found["explainedUsd"], found["notes"]) == ("0.0000000000", "0.0000000000", [])
    assert found["sdkUsd"] == found["measuredUsd"] == found["costUsd"] != "0.0000000000"
    for run in own:
        assert (run["driftUsd"], run["sdkUsd"]) == ("0.0000000000", "0.0790498500")
        assert run["costUsd"] == "0.2454270000"


async def test_what_the_cli_does_not_count_is_named(world_of: WorldOf) -> None:
    """Turns of one conversation: each is compared without those before it."""
    world = await a_parking_world(world_of, in_turn())
    cases = {
        "service tier batch": (UsageObject(COUNTS, service_tier="batch"), {}, "-0.0395249250"),
        "compaction by the provider": (
            UsageObject(COUNTS, iterations=[Iteration("compaction", TokenCounts(100_000, 3_500))]),
            {},
            "0.3525000000",
        ),
        "fallback to another model": (
            UsageObject(
                TokenCounts(1_000, 1_000),
                iterations=[
                    Iteration("message", TokenCounts(1_000, 10), SONNET),
                    Iteration("fallback_message", TokenCounts(1_000, 1_000), ADVISOR),
                ],
            ),
            {"model": ADVISOR},
            "0.0151500000",
        ),
        f"served by {ADVISOR}": (UsageObject(COUNTS), {"model": ADVISOR}, "0.0526999000"),
        "a refusal without output is free": (
            UsageObject(TokenCounts(1_000)),
            {"stop_reason": "refusal"},
            "-0.0030000000",
        ),
    }
    for note, (usage, reply, explained) in cases.items():
        found = await compared(world, reporting(usage, **reply), model=SONNET, stateKey="chat")

        assert (found["notes"], found["explainedUsd"]) == ([note], explained), note
        assert found["driftUsd"] == "0.0000000000", note
        difference = Decimal(found["measuredUsd"]) - Decimal(found["sdkUsd"])
        assert difference == Decimal(explained), note


async def test_what_cannot_be_compared_is_no_alarm(world_of: WorldOf) -> None:
    world = await world_of(in_turn())
    reply = reporting(UsageObject(COUNTS, service_tier="flex"))
    cut = Reply([Text("one two three")], usage=UsageObject(COUNTS).started(), cut_after=5)

    unpriced = await compared(world, reply, model=SONNET)
    truncated = await compared(world, cut, model=SONNET)
    alarms = (await world.http.get("/v1/alarms")).json()["drift"]

    assert (unpriced["driftUsd"], unpriced["sdkUsd"]) == ("0.0000000000", "0.0790498500")
    assert (truncated["driftUsd"], truncated["sdkUsd"]) == (None, None)
    assert truncated["notes"] == ["a message that was cut off is an estimate"]
    assert (alarms["runs"], alarms["costUsd"]) == (0, "0.0000000000")
