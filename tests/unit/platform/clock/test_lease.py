import asyncio
from dataclasses import dataclass

import pytest

from app.ids import AccountId, RunId, RunKey, new_uuid
from app.platform.clock.lease import Lease
from tests.patience import PATIENCE_S

RUN = RunKey(AccountId(new_uuid()), RunId("run-1"))
OTHER = RUN._replace(run_id=RunId("run-2"))


@dataclass
class Passing:
    """Time that passes when a test says so."""

    s: float = 100.0

    def __call__(self) -> float:
        return self.s


def a_lease() -> tuple[Lease, Passing]:
    now = Passing()
    return Lease(15, elapsed_s=now), now


def test_it_ends_unless_it_is_renewed_and_counts_from_before_the_heartbeat() -> None:
    lease, now = a_lease()
    now.s += 14
    assert lease.is_held
    lease.renew(since=now.s - 4)

    now.s += 10.9
    assert (lease.is_held, lease.overdue_s) == (True, 0)
    now.s += 3.1
    assert (lease.is_held, round(lease.overdue_s)) == (False, 3)


def test_an_answer_that_comes_late_does_not_shorten_it() -> None:
    lease, now = a_lease()
    lease.renew(since=now.s)
    lease.renew(since=now.s - 10)

    now.s += 14
    assert lease.is_held


async def test_what_waits_goes_on_with_the_next_heartbeat_except_for_lost_runs() -> None:
    lease, now = a_lease()
    now.s += 40
    waiting = [asyncio.create_task(lease.wait_held(run, within_s=PATIENCE_S)) for run in (RUN, OTHER)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert not any(each.done() for each in waiting)

    lease.lose([OTHER])
    lease.renew(since=now.s)

    assert await asyncio.gather(*waiting) == [True, False]


async def test_a_lost_run_is_over_at_once_and_its_id_may_be_used_again() -> None:
    lease, _ = a_lease()
    lease.lose([RUN])

    assert (lease.is_lost(RUN), await lease.wait_held(RUN, within_s=PATIENCE_S)) == (True, False)
    lease.forget(RUN)
    assert await lease.wait_held(RUN, within_s=PATIENCE_S)


@pytest.mark.parametrize("seen_at", ["before the claim's answer", "after it"])
async def test_a_run_that_was_claimed_before_the_lease_ended_waits_for_a_heartbeat_that_has_it(
    seen_at: str,
) -> None:
    """Another process may have taken it over, and the heartbeat that renews the lease does not know of it."""
    lease, now = a_lease()
    since = now.s
    now.s += 40
    if seen_at == "after it":
        lease.add(RUN, since=since)
    lease.renew([OTHER], since=now.s)
    if seen_at != "after it":
        lease.add(RUN, since=since)

    assert lease.is_held
    assert not await lease.wait_held(RUN, within_s=0.01)
    lease.renew([RUN], since=now.s)
    assert await lease.wait_held(RUN, within_s=PATIENCE_S)


async def test_a_run_that_was_claimed_under_the_same_lease_need_not_wait() -> None:
    lease, now = a_lease()
    since = now.s
    now.s += 10
    lease.renew(since=now.s)
    now.s += 10
    lease.add(RUN, since=since)

    assert await lease.wait_held(RUN, within_s=PATIENCE_S)


async def test_the_wait_ends() -> None:
    lease, now = a_lease()
    now.s += 40

    assert not await lease.wait_held(RUN, within_s=0.01)


def test_without_other_processes_it_never_ends() -> None:
    now = Passing()
    lease = Lease(elapsed_s=now)
    now.s += 10**9

    assert (lease.is_held, lease.overdue_s, lease.term_s) == (True, 0, 15)
