"""The implementations of the ports."""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest

from app.platform.db import Database
from app.streams.memory import MemoryEventLog
from tests.contracts.dispatching import OpenFleet, Outage, a_fleet
from tests.contracts.event_logs import Log, a_relayed_log
from tests.contracts.temporal import TemporalServer, a_temporal_server
from tests.e2e.test_a_conversation_goes_on import away


@pytest.fixture(params=["memory", "relayed"])
async def event_log(request: pytest.FixtureRequest) -> AsyncIterator[Log]:
    if request.param == "memory":
        log = MemoryEventLog()
        yield log
        await log.aclose()
    else:
        async with a_relayed_log(request.getfixturevalue("redis_url")) as relayed:
            yield relayed


@pytest.fixture(scope="session")
def temporal_server() -> Iterator[TemporalServer]:
    with a_temporal_server() as server:
        yield server


@pytest.fixture(params=["postgres", pytest.param("temporal", marks=pytest.mark.long)])
def open_fleet(
    request: pytest.FixtureRequest, database: Database, database_url: str, tmp_path: Path
) -> OpenFleet:
    """Opens processes with each implementation of the dispatcher."""
    server = request.getfixturevalue("temporal_server") if request.param == "temporal" else None
    return partial(a_fleet, database, database_url, tmp_path, server)


@pytest.fixture
def outage(postgres: str, database_url: str) -> Outage:
    """Within it the database accepts no connection."""
    return partial(away, postgres, database_url)
