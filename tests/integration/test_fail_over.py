"""A replica that lacks the latest commits takes over: what servers still know is stored again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
from structlog.testing import capture_logs

from app.auth.records import KeyRecord
from app.billing.chain.verification import verify
from app.platform.db import Database
from tests.conftest import a_database
from tests.factories import a_fact
from tests.integration.receipt_queues import a_delivery
from tests.integration.statements import rows
from tests.patience import PATIENCE_S


@asynccontextmanager
async def a_late_replica(postgres: str, database_url: str) -> AsyncIterator[str]:
    """A copy of the database as it is now."""
    admin = await asyncpg.connect(postgres)
    name = database_url.rpartition("/")[2]
    await _end_connections(admin, name)
    await admin.close()
    async with a_database(postgres, template=name) as url:
        yield url


async def take_over(postgres: str, replica_url: str, database_url: str) -> None:
    """The copy takes the place of the database, which ends all connections."""
    replica, name = (url.rpartition("/")[2] for url in (replica_url, database_url))
    admin = await asyncpg.connect(postgres)
    for each in (replica, name):
        await _end_connections(admin, each)
    await admin.execute(f"ALTER DATABASE {name} RENAME TO {name}_lost")
    await admin.execute(f"ALTER DATABASE {replica} RENAME TO {name}")
    # What drops the copy at the end drops the lost one.
    await admin.execute(f"ALTER DATABASE {name}_lost RENAME TO {replica}")
    await admin.close()


async def _end_connections(admin: asyncpg.Connection, name: str) -> None:
    await admin.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = $1", name
    )


async def stored(database: Database) -> list[tuple[str, int]]:
    found = await rows(database, "SELECT usage_unit_id, charged_credits FROM charge_receipts ORDER BY 1")
    return [(row.usage_unit_id, row.charged_credits) for row in found]


async def test_receipts_that_a_late_replica_lacks_are_stored_again_once(
    database: Database, key: KeyRecord, postgres: str, database_url: str, tmp_path: Path
) -> None:
    facts = [a_fact(key, f"msg_{number}") for number in range(3)]
    async with a_delivery(database, tmp_path) as (queue, delivery):
        queue.record(facts[0])
        await queue.flush(facts[0].run, within_s=PATIENCE_S)
        async with a_late_replica(postgres, database_url) as replica_url:
            for fact in facts[1:]:
                queue.record(fact)
                await queue.flush(fact.run, within_s=PATIENCE_S)
            charged = await stored(database)
            await take_over(postgres, replica_url, database_url)
            left = await stored(database)
            with capture_logs() as logs:
                await delivery.confirm()
                unchanged = await stored(database)
                await delivery.confirm(kept_s=0)
                await queue.flush(facts[0].run, within_s=PATIENCE_S)
                await delivery.confirm(kept_s=0)
            again = await stored(database)
            proved = await verify(database, {})

    lost = [each["source_reference"] for each in logs if each["event"] == "receipt.delivered_again"]
    assert (len(left), len(charged), unchanged) == (1, 3, left)
    assert (lost, again) == ([fact.source_reference for fact in facts[1:]], charged)
    assert [each for each in proved.findings if "root" not in each] == []
