import asyncio
from contextlib import ExitStack

import pytest

from app.ids import AccountId, ApiKeyId, new_uuid
from app.runs.dispatcher import Capacity, QueueFull, RunDispatcher, SlotHolder

ACME, UMBRELLA, INITECH = (AccountId(new_uuid()) for _ in range(3))


class Traffic:
    """Runs that hold their slots until the test releases them."""

    def __init__(
        self,
        concurrent: int = 1,
        *,
        per_account: int | None = None,
        per_key: int | None = None,
        capacity: Capacity | None = None,
    ) -> None:
        most = per_account or concurrent
        self.dispatcher = RunDispatcher(capacity or Capacity(concurrent, 100, most, per_key or most))
        self.started: list[str] = []
        self.positions: dict[str, int] = {}
        self.leave: dict[str, asyncio.Event] = {}
        self.stop: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def arrive(self, account_id: AccountId, *names: str, key: ApiKeyId | None = None) -> None:
        holder = SlotHolder(account_id, key or ApiKeyId(account_id))
        for name in names:
            self.leave[name], self.stop[name] = asyncio.Event(), asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._run(holder, name))
            await settled()

    async def depart(self, *names: str) -> None:
        for name in names:
            self.leave[name].set()
            await settled()

    async def _run(self, holder: SlotHolder, name: str) -> None:
        async def on_wait(position: int) -> None:
            self.positions[name] = position

        async with self.dispatcher.acquire(holder, self.stop[name], on_wait=on_wait):
            self.started.append(name)
            await self.leave[name].wait()


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_runs_of_one_account_come_in_order() -> None:
    traffic = Traffic(concurrent=1)

    await traffic.arrive(ACME, "a1", "a2", "a3")
    await traffic.depart("a1", "a2", "a3")

    assert traffic.started == ["a1", "a2", "a3"]
    assert traffic.positions == {"a2": 1, "a3": 2}


async def test_an_account_with_many_runs_does_not_starve_the_others() -> None:
    traffic = Traffic(concurrent=2)

    await traffic.arrive(ACME, "a1", "a2", "a3", "a4")
    await traffic.arrive(UMBRELLA, "u1", "u2")
    await traffic.arrive(INITECH, "i1")
    await traffic.depart("a1", "a2")

    assert traffic.started == ["a1", "a2", "u1", "i1"]
    await traffic.depart("u1", "i1")
    assert traffic.started[4:] == ["a3", "u2"]
    await traffic.depart("a3", "u2", "a4")
    assert traffic.started[-1] == "a4"


async def test_a_stopped_run_stops_waiting_for_a_slot() -> None:
    traffic = Traffic(concurrent=1)
    await traffic.arrive(ACME, "a1", "a2", "a3")

    traffic.stop["a2"].set()
    await settled()

    # It needs no place to end, and holds none.
    assert traffic.started == ["a1", "a2"]
    await traffic.depart("a2", "a1")
    assert traffic.started == ["a1", "a2", "a3"]


async def test_a_cancelled_run_leaves_nothing_behind() -> None:
    traffic = Traffic(concurrent=1)
    await traffic.arrive(ACME, "a1", "a2", "a3")

    for name in ("a2", "a1"):
        traffic.tasks[name].cancel()
        await settled()

    assert traffic.started == ["a1", "a3"]


def test_runs_beyond_the_queue_are_refused() -> None:
    dispatcher = RunDispatcher(Capacity.of(1, 2))

    with ExitStack() as stack:
        for account_id in (ACME, UMBRELLA, INITECH):
            stack.enter_context(dispatcher.admission(account_id))
        with pytest.raises(QueueFull) as refused, dispatcher.admission(AccountId(new_uuid())):
            pass
        assert refused.value.limit == 3

    with dispatcher.admission(ACME):
        pass


async def test_one_account_cannot_fill_the_queue() -> None:
    dispatcher = RunDispatcher(Capacity.of(1, 4))
    stop = asyncio.Event()

    async def on_wait(_position: int) -> None:
        pass

    with ExitStack() as stack:
        stack.enter_context(dispatcher.admission(ACME))
        async with dispatcher.acquire(SlotHolder(ACME, ApiKeyId(ACME)), stop, on_wait=on_wait):
            stack.enter_context(dispatcher.admission(ACME))
            stack.enter_context(dispatcher.admission(ACME))
            with pytest.raises(QueueFull), dispatcher.admission(ACME):
                pass
            stack.enter_context(dispatcher.admission(UMBRELLA))


def test_an_admitted_run_counts_until_it_is_released() -> None:
    dispatcher = RunDispatcher(Capacity.of(1, 0))
    with dispatcher.admission(ACME) as admitted:
        admitted.pop_all()

    with pytest.raises(QueueFull), dispatcher.admission(ACME):
        pass
    dispatcher.release(ACME)

    with dispatcher.admission(ACME):
        pass


async def test_one_account_cannot_hold_every_slot() -> None:
    traffic = Traffic(concurrent=4, per_account=3)

    await traffic.arrive(ACME, "a1", "a2", "a3", "a4")
    await traffic.arrive(UMBRELLA, "u1")

    assert traffic.started == ["a1", "a2", "a3", "u1"]


async def test_the_last_slot_is_for_an_account_that_has_none() -> None:
    traffic = Traffic(concurrent=4, per_account=3)

    await traffic.arrive(ACME, "a1", "a2")
    await traffic.arrive(UMBRELLA, "u1", "u2")
    await traffic.arrive(INITECH, "i1")

    assert traffic.started == ["a1", "a2", "u1", "i1"]
    await traffic.depart("a1")
    assert traffic.started == ["a1", "a2", "u1", "i1"], "the last free place waits for a newcomer"
    await traffic.depart("a2")
    assert traffic.started[4:] == ["u2"]


async def test_slots_are_shared_from_the_second_account_on() -> None:
    traffic = Traffic(capacity=Capacity.of(4, 100))

    await traffic.arrive(ACME, "a1", "a2", "a3", "a4", "a5")
    assert traffic.started == ["a1", "a2", "a3", "a4"], "there is nobody to share with"
    traffic.dispatcher.share_slots()
    await traffic.depart("a1")
    assert traffic.started == ["a1", "a2", "a3", "a4"], "the last free place is for somebody else"
    await traffic.arrive(UMBRELLA, "u1")

    assert traffic.started[4:] == ["u1"]


def test_a_second_account_is_detected_with_its_first_run() -> None:
    dispatcher = RunDispatcher(Capacity.of(4, 0))

    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(dispatcher.admission(ACME))
        with dispatcher.admission(UMBRELLA):
            pass
        with pytest.raises(QueueFull), dispatcher.admission(ACME):
            pass


async def test_a_limit_that_an_operator_sets_holds_for_a_lone_account_too() -> None:
    traffic = Traffic(capacity=Capacity.of(4, 100, per_account=2))

    await traffic.arrive(ACME, "a1", "a2", "a3")

    assert traffic.started == ["a1", "a2"]


async def test_one_key_cannot_hold_every_slot_of_its_account() -> None:
    traffic = Traffic(concurrent=4, per_account=3, per_key=2)
    website, laptop = (ApiKeyId(new_uuid()) for _ in range(2))

    await traffic.arrive(ACME, "w1", "w2", "w3", key=website)
    await traffic.arrive(ACME, "l1", key=laptop)

    assert traffic.started == ["w1", "w2", "l1"]
    await traffic.depart("w1")
    assert traffic.started[3:] == ["w3"]


@pytest.mark.parametrize(
    ("concurrent", "per_account", "reserved"), [(1, 1, 0), (2, 1, 1), (3, 2, 1), (8, 6, 1), (64, 48, 1)]
)
def test_an_account_may_hold_three_quarters_of_the_slots(
    concurrent: int, per_account: int, reserved: int
) -> None:
    capacity = Capacity.of(concurrent, 256)

    assert (capacity.per_account, capacity.per_key, capacity.reserved) == (per_account, per_account, reserved)


def test_an_operator_may_give_one_account_every_slot() -> None:
    capacity = Capacity.of(8, 256, per_account=100)

    assert (capacity.per_account, capacity.reserved) == (8, 0)


def test_without_a_queue_one_account_is_refused_while_others_get_a_slot() -> None:
    dispatcher = RunDispatcher(Capacity.of(4, 0))
    dispatcher.share_slots()

    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(dispatcher.admission(ACME))
        with pytest.raises(QueueFull), dispatcher.admission(ACME):
            pass
        stack.enter_context(dispatcher.admission(UMBRELLA))


async def test_a_claimed_slot_is_held_until_its_run_ends() -> None:
    traffic = Traffic(concurrent=1)
    holder = SlotHolder(ACME, ApiKeyId(ACME))
    with traffic.dispatcher.claim(holder) as claim:
        await traffic.arrive(ACME, "waits")
        claim.is_used = claim.has_slot
    assert traffic.started == []

    async with traffic.dispatcher.acquire(holder, asyncio.Event(), on_wait=never, is_claimed=True):
        await settled()
        assert traffic.started == []
    await settled()

    assert (claim.has_slot, traffic.started) == (True, ["waits"])
    await traffic.depart("waits")


async def test_a_claim_that_is_not_used_gives_its_slot_to_a_run_that_waits() -> None:
    traffic = Traffic(concurrent=1)
    with traffic.dispatcher.claim(SlotHolder(ACME, ApiKeyId(ACME))):
        await traffic.arrive(UMBRELLA, "waits")
        assert traffic.started == []

    await settled()

    assert traffic.started == ["waits"]
    await traffic.depart("waits")


async def test_no_claim_takes_a_slot_that_is_held_or_reserved() -> None:
    dispatcher = RunDispatcher(Capacity(2, 100, 1, 1))
    first, same, other = (SlotHolder(each, ApiKeyId(each)) for each in (ACME, ACME, UMBRELLA))

    with (
        dispatcher.claim(first) as taken,
        dispatcher.claim(same) as beyond_its_share,
        dispatcher.claim(other, wanted=False) as not_wanted,
        dispatcher.claim(other) as last,
        dispatcher.claim(SlotHolder(INITECH, ApiKeyId(INITECH))) as too_late,
    ):
        granted = [each.has_slot for each in (taken, beyond_its_share, not_wanted, last, too_late)]

    assert granted == [True, False, False, True, False]


async def never(_position: int) -> None:
    raise AssertionError
