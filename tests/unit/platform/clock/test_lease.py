import asyncio

import pytest

from app.ids import AccountId, RunId, RunKey, new_uuid
from app.platform.clock.lease import Lease
from tests.patience import PATIENCE_S
from tests.unit.clock import Clock
from tests.unit.waiting import turns

RUN = RunKey(AccountId(new_uuid()), RunId("run-1"))
OTHER = RUN._replace(run_id=RunId("run-2"))


def a_lease() -> tuple[Lease, Clock]:
    clock = Clock()
    return Lease(15, elapsed_s=clock), clock


def test_it_ends_unless_it_is_renewed_and_counts_from_before_the_heartbeat() -> None:
    lease, clock = a_lease()
    clock.now += 14
    assert lease.is_held
    lease.renew(since=clock.now - 4)

    clock.now += 10.9
    assert (lease.is_held, lease.overdue_s) == (True, 0)
    clock.now += 3.1
    assert (lease.is_held, round(lease.overdue_s)) == (False, 3)


def test_an_answer_that_comes_late_does_not_shorten_it() -> None:
    lease, clock = a_lease()
    lease.renew(since=clock.now)
    lease.renew(since=clock.now - 10)

    clock.now += 14
    assert lease.is_held


async def test_what_waits_goes_on_with_the_next_heartbeat_except_for_lost_runs() -> None:
    lease, clock = a_lease()
    clock.now += 40
    waiting = [asyncio.create_task(lease.wait_held(run, within_s=PATIENCE_S)) for run in (RUN, OTHER)]
    await turns(10)
    assert not any(each.done() for each in waiting)

    lease.lose([OTHER])
    lease.renew(since=clock.now)

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
    lease, clock = a_lease()
    since = clock.now
    clock.now += 40
    if seen_at == "after it":
        lease.add(RUN, since=since)
    lease.renew([OTHER], since=clock.now)
    if seen_at != "after it":
        lease.add(RUN, since=since)

    assert lease.is_held
    assert not await lease.wait_held(RUN, within_s=0.01)
    lease.renew([RUN], since=clock.now)
    assert await lease.wait_held(RUN, within_s=PATIENCE_S)


async def test_a_run_that_was_claimed_under_the_same_lease_need_not_wait() -> None:
    lease, clock = a_lease()
    since = clock.now
    clock.now += 10
    lease.renew(since=clock.now)
    clock.now += 10
    lease.add(RUN, since=since)

    assert await lease.wait_held(RUN, within_s=PATIENCE_S)


async def test_the_wait_ends() -> None:
    lease, clock = a_lease()
    clock.now += 40

    assert not await lease.wait_held(RUN, within_s=0.01)


def test_without_other_processes_it_never_ends() -> None:
    clock = Clock()
    lease = Lease(elapsed_s=clock)
    clock.now += 10**9

    assert (lease.is_held, lease.overdue_s, lease.term_s) == (True, 0, 15)
