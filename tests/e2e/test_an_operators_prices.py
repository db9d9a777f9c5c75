"""An operator's own price of an alias that a dated release answers."""

from pathlib import Path

from app.simulator.script import Reply, Text
from tests.e2e.agents import without_cli
from tests.e2e.stories import WorldOf, a_request

ALIAS, RELEASE, OTHER_RELEASE = (
    "claude-opus-4-6",
    "claude-opus-4-6-20260205",
    "claude-opus-4-6-20990101",
)
USAGE = {"input_tokens": 1_000, "output_tokens": 1}
FINAL = {"output_tokens": 1_000}


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
