"""A short storm; `python -m benchmarks.chaos` is the long one."""

from benchmarks.chaos import STRIKES, storm


async def test_killed_servers_stopped_databases_and_full_disks_lose_nothing() -> None:
    happened, verdict = await storm(len(STRIKES), seed=4)

    assert set(happened.strikes) == set(STRIKES)
    assert verdict.wrong == []
    assert happened.shown
    assert verdict.receipts >= len(happened.shown)
