"""A few rounds of chaos; `python -m benchmarks.chaos` runs more."""

from benchmarks.chaos import FAULTS, run_rounds


async def test_killed_servers_stopped_databases_and_full_disks_lose_nothing() -> None:
    happened, verdict = await run_rounds(len(FAULTS), seed=4)

    assert set(happened.strikes) == set(FAULTS)
    assert verdict.wrong == []
    assert happened.shown
    assert verdict.receipts >= len(happened.shown)
