"""An operator's own prices: of an alias that a dated release answers, and changed in the middle of a run."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from app.simulator.script import ApiRequest, Reply, Text, ToolUse
from tests.e2e.agents import without_cli
from tests.e2e.stories import ANALYST, CALCULATOR, OpenWorld, WorldOf, a_request, until

ALIAS, RELEASE, OTHER_RELEASE = (
    "claude-opus-4-6",
    "claude-opus-4-6-20260205",
    "claude-opus-4-6-20990101",
)
HAIKU = "claude-haiku-5-5"
USAGE = {"input_tokens": 1_000, "output_tokens": 1}
FINAL = {"output_tokens": 1_000}
LEADS_S = (2, 6, 18)
"""How long before the change the server starts. If it is too slow for one, the next is tried."""


def prices(*entries: str) -> str:
    return "prices:\n" + "".join(f"  - {{{entry}}}\n" for entry in entries)


@without_cli
async def test_the_price_of_an_alias_is_that_of_the_release_which_answers(
    world_of: WorldOf, tmp_path: Path
) -> None:
    file = tmp_path / "prices.yaml"
    own = [
        f'model: {ALIAS}, since: 2020-01-01, input: "1", output: "2"',
        f'model: {OTHER_RELEASE}, since: 2020-01-01, input: "7", output: "8"',
    ]
    file.write_text(prices(*own))
    world = await world_of(
        lambda _: Reply([Text("hi")], usage=USAGE, final_usage=FINAL), RUNTALLY_PRICES_FILE=file
    )
    charged = {}
    for release in (RELEASE, OTHER_RELEASE, f"{ALIAS}-nonsense"):
        world.simulator.releases = {ALIAS: release}
        run_id = await world.start(a_request(model=ALIAS))
        await world.ended(run_id)
        (receipt,) = await world.receipts(run_id)
        assert (receipt["model"], receipt["requestedModel"]) == (release, ALIAS)
        charged[release] = (receipt["costUsd"], receipt["unpriced"])

    assert charged == {
        RELEASE: ("0.0030000000", []),
        OTHER_RELEASE: ("0.0150000000", []),
        f"{ALIAS}-nonsense": ("0.0000000000", [f"model={ALIAS}-nonsense"]),
    }


@without_cli
async def test_a_price_changed_in_the_middle_of_a_run_is_that_of_each_messages_moment(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    for lead_s in LEADS_S:
        change = datetime.now(UTC) + timedelta(seconds=lead_s)
        before, after = await receipts_around(change, open_world, tmp_path)
        if moment(before) < change:
            break

    assert moment(before) < change <= moment(after)
    assert (before["costUsd"], after["costUsd"]) == ("0.0060000000", "0.0140000000")
    assert before["priceVersion"] == after["priceVersion"] != ""
    amounts = {line["kind"]: Decimal(line["unitPriceUsd"]) * 1_000_000 for line in after["lines"]}
    assert amounts == {"input": 5, "output": 9}


async def receipts_around(
    change: datetime, open_world: OpenWorld, directory: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The receipts of a run whose second message begins after this moment, when its price changes."""
    file = directory / "prices.yaml"
    own = [
        f'model: {HAIKU}, since: 2020-01-01, input: "2", output: "4"',
        f'model: {HAIKU}, since: {change.isoformat()}, input: "5", output: "9"',
    ]
    file.write_text(prices(*own))

    async def answer(request: ApiRequest) -> Reply:
        if not request.tool_results:
            call = ToolUse(CALCULATOR, {"expression": "1 + 1"})
            return Reply([call], usage=USAGE, final_usage=FINAL)
        await until(lambda: datetime.now(UTC) >= change)
        return Reply([Text("2")], usage=USAGE, final_usage=FINAL)

    async with open_world(answer, RUNTALLY_PRICES_FILE=file) as world:
        run_id = await world.start(a_request(graphId=ANALYST, model=HAIKU))
        await world.ended(run_id)
        before, after = await world.receipts(run_id)
    return before, after


def moment(receipt: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(receipt["usedAt"])
