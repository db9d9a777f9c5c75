"""A round of chaos; `python -m benchmarks.chaos` runs more."""

from benchmarks.chaos import FAULTS, run_rounds

ROUNDS = 1
"""A server is killed while the database goes on; the other faults have stories of their own."""


async def test_a_killed_server_loses_nothing() -> None:
    happened, verdict = await run_rounds(ROUNDS, seed=4)

    assert set(happened.strikes) == set(FAULTS[:ROUNDS])
    assert verdict.wrong == []
    assert happened.shown
    assert verdict.receipts >= len(happened.shown)
