"""How many schedules an account may have, with several server processes."""

import asyncio
from pathlib import Path

from app.platform.db import Database
from app.schedules.records import Schedule
from app.schedules.service import TooManySchedules
from tests.factories import an_account, an_open_database
from tests.integration.run_service import caller_of
from tests.integration.schedule_server import a_schedule_server


async def test_several_processes_together_keep_the_limit_of_an_account(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    async with (
        an_open_database(database_url) as other,
        a_schedule_server(database, tmp_path / "a", max_per_account=1) as first,
        a_schedule_server(other, tmp_path / "b", max_per_account=1) as second,
    ):
        for number in range(10):
            owner = caller_of(await an_account(database, f"account-{number}"))
            works = [server.schedule("0 0 1 1 *", owner=owner) for server in (first, second)]
            answers = await asyncio.gather(*works, return_exceptions=True)

            assert {type(answer) for answer in answers} == {Schedule, TooManySchedules}
