"""What each run executes is planned once for a connection: planning it took as long as executing it."""

from datetime import UTC, datetime

import pytest

from app.platform.db import Database
from app.runs.dispatch.insertion.records import AtOnce
from tests.factories import a_new_turn, an_account
from tests.integration.charging import charge
from tests.integration.run_queue import Queue
from tests.integration.statements import rows

OFTEN = 8
"""From the sixth time on PostgreSQL keeps a plan, unless it expects one for the values to be cheaper."""

PLANS = """
    SELECT coalesce(sum(custom_plans), 0) AS custom, coalesce(sum(generic_plans), 0) AS generic
      FROM pg_prepared_statements WHERE statement LIKE :like AND statement NOT LIKE '%pg_prepared%'
"""


@pytest.mark.parametrize(
    ("statement", "like"),
    [
        ("run", "%usable_key(%"),
        ("turn", "%turn_begins_with(%"),
        ("receipt", "%INSERT INTO charge_receipts%"),
    ],
)
async def test_a_plan_is_kept(database_url: str, statement: str, like: str) -> None:
    # One connection: plans are kept for each.
    database = await Database.open(database_url, pool_size=1)
    try:
        key, queue, now = await an_account(database), Queue(database), datetime.now(UTC)
        for number in range(OFTEN):
            if statement == "receipt":
                await charge(database, key, f"msg_{number}", 1, at=now)
                continue
            turn = a_new_turn("chat") if statement == "turn" else None
            async with database.write() as tx:
                given = AtOnce(2, None, 1, now, turn, 1000)
                await queue.queue.insert_at_once(tx, queue.new(key, f"run-{number}"), given)

        (plans,) = await rows(database, PLANS, like=like)
        assert (plans.custom, plans.generic) == (5, OFTEN - 5)
    finally:
        await database.aclose()
