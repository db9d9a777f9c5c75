"""A few combinations of tests/integration/test_dollars.py through the API, with the real SDK and CLI."""

from decimal import ROUND_HALF_UP
from pathlib import Path
from typing import Any

from app.simulator.script import in_turn
from tests.e2e.parking import a_parking_world
from tests.e2e.stories import World, WorldOf, a_request
from tests.integration.dollars import ALIAS, RELEASES, STORED, Case

DEAREST = Case(
    "us",
    "batch",
    "fast",
    kinds="compaction and advisor",
    cache="all",
    tools="searches and fetches",
    way="streamed",
)
GRAPH = "claude_agents:plain"
"""Without a budget."""
CASES = [
    [DEAREST],
    [Case("us", None, None, kinds="fallback", cache="read", tools="none", way="streamed")],
    # The CLI sends a message that was cut off again.
    [
        Case("us", "batch", "fast", kinds="advisor", cache="1 hour", tools="searches and fetches", way="cut"),
        Case(None, None, "fast", kinds="two", cache="5 minutes", tools="none", way="streamed"),
    ],
]


async def test_dollars_through_the_cli(world_of: WorldOf, tmp_path: Path) -> None:
    (tmp_path / "graphs").mkdir()
    (tmp_path / "graphs" / "plain.md").write_text("---\ndescription: d\nmodel: sonnet\n---\nHi.")
    world = await a_parking_world(world_of, in_turn(), RUNTALLY_GRAPHS_DIR=tmp_path / "graphs")
    world.simulator.releases = RELEASES
    for cases in CASES:
        receipts = await receipts_of(world, cases)

        expected = [str(case.dollars().quantize(STORED, ROUND_HALF_UP)) for case in cases]
        assert [receipt["costUsd"] for receipt in receipts] == expected
        assert [receipt["basis"] for receipt in receipts] == [
            "partial" if case.way == "cut" else "final" for case in cases
        ]


async def receipts_of(world: World, cases: list[Case]) -> list[dict[str, Any]]:
    world.simulator.responder = in_turn(*(case.reply() for case in cases))
    run_id = await world.start(a_request(graphId=GRAPH, model=ALIAS, stateKey="chat"))
    assert (await world.ended(run_id))["status"] == "succeeded"
    return await world.receipts(run_id)
