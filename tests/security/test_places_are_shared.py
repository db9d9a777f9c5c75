"""One account's runs that never end leave others their place."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from app.simulator.script import ApiRequest, Reply, Text
from app.simulator.server import Simulator
from tests.e2e.stories import a_request
from tests.patience import PATIENCE_S
from tests.security.conftest import OpenTarget
from tests.security.tenant import LONGEST_S, Outcome, ran

pytestmark = pytest.mark.long

HANGING = 2
"""Of three places; see the function `active_limit` of the database."""
WAITING = 4
THREE_PLACES = {
    "RUNTALLY_MAX_CONCURRENT_RUNS": "3",
    "RUNTALLY_MAX_QUEUED_RUNS": str(2 * WAITING),
}
EVERY_S = 0.02


def slow_answer(request: ApiRequest) -> Reply:
    """Never done where it is to hang, and never silent: the CLI gives up calls silent for 30 s."""
    hangs = "hang" in request.last_text
    return Reply([Text("word " * 600 if hangs else "ok")], delta_delay_s=0.5 if hangs else 0)


class Flood:
    """An account that posts runs that hang, with all its keys, whatever it is answered."""

    def __init__(self, *keys: httpx.AsyncClient) -> None:
        self._keys = keys
        self.answers: Counter[tuple[int, str | None]] = Counter()

    async def post(self) -> None:
        while True:
            for http in self._keys:
                answer = await http.post("/v1/runs", json=a_request("hang"))
                self.answers[answer.status_code, answer.json().get("code")] += 1
                await asyncio.sleep(EVERY_S)

    async def states(self) -> dict[str, str]:
        """The status of each of its runs."""
        runs = (await self._keys[0].get("/v1/runs")).raise_for_status().json()["items"]
        return {run["runId"]: run["status"] for run in runs}

    async def has_all_it_gets(self) -> None:
        """Wait until it holds as many places as it may, and as many of its runs wait as may."""
        async with asyncio.timeout(PATIENCE_S):
            while Counter((await self.states()).values()) != {"running": HANGING, "queued": WAITING}:
                await asyncio.sleep(EVERY_S)

    async def is_refused_again(self) -> None:
        """Wait until it has posted in vain some more."""
        async with asyncio.timeout(PATIENCE_S):
            before = self.answers.total()
            while self.answers.total() < before + 2 * len(self._keys):
                await asyncio.sleep(EVERY_S)

    async def cancel(self) -> None:
        """End its runs, those that wait first."""
        for run_id in await self.states():
            await self._keys[0].post(f"/v1/runs/{run_id}/cancel")


@asynccontextmanager
async def flooding(*keys: httpx.AsyncClient) -> AsyncIterator[Flood]:
    flood = Flood(*keys)
    posting = asyncio.create_task(flood.post())
    try:
        yield flood
        assert not posting.done()
    finally:
        posting.cancel()
        await asyncio.wait({posting})
        await flood.cancel()


async def ran_in_time(http: httpx.AsyncClient) -> Outcome:
    """One run of somebody else; heartbeats alone would keep it waiting for as long as the flood lasts."""
    async with asyncio.timeout(LONGEST_S):
        return await ran(http)


async def test_runs_of_others_start_while_those_of_a_flood_hang(open_target: OpenTarget) -> None:
    async with Simulator(slow_answer) as simulator, open_target(simulator.url, **THREE_PLACES) as target:
        keys = [await target.new_key(account) for account in ("flood", "flood", "other")]
        async with (
            target.client(keys[0]) as one,
            target.client(keys[1]) as two,
            target.client(keys[2]) as other,
        ):
            # From its second account on a server shares its places.
            alone = await ran_in_time(other)
            async with flooding(one, two) as flood:
                await flood.has_all_it_gets()
                before, outcomes = await flood.states(), []
                for _ in range(2):
                    await flood.is_refused_again()
                    outcomes.append(await ran_in_time(other))
                after = await flood.states()

    for started_s, done_s, status in (alone, *outcomes):
        assert status == 200
        assert started_s is not None
        assert done_s is not None
    assert after == before
    assert flood.answers.keys() == {(202, None), (429, "queue_full")}
    assert flood.answers[202, None] == HANGING + WAITING
