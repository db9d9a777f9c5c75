"""A few rounds of chaos; `python -m benchmarks.chaos` runs more."""

import pytest

from benchmarks.chaos import FAULTS, run_rounds

pytestmark = pytest.mark.long

ROUNDS = 2
"""Full disks have stories of their own."""


@pytest.mark.parametrize("processes", [1, 3])
async def test_killed_servers_and_stopped_databases_lose_nothing(processes: int) -> None:
    happened, verdict = await run_rounds(ROUNDS, seed=4, processes=processes)

    assert set(happened.strikes) == set(FAULTS[:ROUNDS])
    assert verdict.wrong == []
    assert happened.shown
    assert verdict.receipts >= len(happened.shown)
