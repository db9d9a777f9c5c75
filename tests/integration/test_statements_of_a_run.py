"""How many round trips to the database a run of `messages` is: the number may only fall."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event

from app.ids import AccountId
from app.simulator.script import ApiRequest, Reply, Text
from tests.e2e.agents import MESSAGES
from tests.e2e.stories import WorldOf, a_request

ROUND_TRIPS = {"alone": 4, "prepaid": 8, "a turn": 9}
"""One reads the key, one accepts the run, one stores its receipt, one its end. A call on credit looks for
unpriced messages and resizes the reservation; a turn reads the transcript and adds to it. Lower them with the
numbers."""

RUNS = 20
"""At most so many, until one makes no more: a periodic job may read something of the account meanwhile, and
a receipt that is late is stored with the run's end and delivered as well."""


class RoundTrips:
    """Those that are made for runs of an account."""

    def __init__(self, account: AccountId) -> None:
        self.made: list[str] = []
        self._of_account = (account, str(account))

    @contextmanager
    def counted(self) -> Iterator[None]:
        listeners = (("before_cursor_execute", self._executed), ("commit", self._committed))
        for name, listener in listeners:
            event.listen(Engine, name, listener)
        try:
            yield
        finally:
            for name, listener in listeners:
                event.remove(Engine, name, listener)

    def _executed(
        self, connection: Connection, _cursor: Any, statement: str, parameters: Any, *_: Any
    ) -> None:
        is_of_key = "api_keys.hash =" in statement or ("api_keys" in statement and "FOR SHARE" in statement)
        # Periodic jobs have lists of runs: a heartbeat those of its process.
        is_of_run = "charge_receipts" in statement or any(each in self._of_account for each in parameters)
        if is_of_key or is_of_run:
            self.made.append(" ".join(statement.split())[:60])
            connection.info["is_of_run"] = True

    def _committed(self, connection: Connection) -> None:
        is_of_run = connection.info.pop("is_of_run", False)
        if is_of_run and connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
            self.made += ["BEGIN", "COMMIT"]


def answers(_request: ApiRequest) -> Reply:
    return Reply([Text("Hello you.")])


@pytest.mark.parametrize("kind", ROUND_TRIPS)
async def test_a_run_makes_no_more_round_trips_than_it_did(world_of: WorldOf, kind: str) -> None:
    world = await world_of(answers)
    body = a_request(graphId=f"{MESSAGES}:assistant", **({"stateKey": "chat"} if kind == "a turn" else {}))
    account = await world.account_id()
    if kind == "prepaid":
        await world.services.ledger.change_mode(account, "prepaid")
        await world.services.ledger.grant(account, 10**9)
    trips = RoundTrips(account)
    # The first one notes the use of the key.
    await world.run(body)

    with trips.counted():
        for _ in range(RUNS):
            trips.made = []
            heard = await world.run(body)
            assert heard[-1].type == "done"
            if len(trips.made) <= ROUND_TRIPS[kind]:
                break

    assert len(trips.made) == ROUND_TRIPS[kind], trips.made
