"""The implementations of the ports."""

import asyncio
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
from tests.redis_programs import a_cluster


@pytest.fixture(scope="session")
def cluster_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with asyncio.Runner() as runner:
        opened = a_cluster(tmp_path_factory.mktemp("cluster"))
        yield runner.run(opened.__aenter__()).url
        runner.run(opened.__aexit__(None, None, None))


@pytest.fixture(params=["redis_url", "cluster_url"])
def relay_url(request: pytest.FixtureRequest) -> str:
    """One server, and a cluster of three shards."""
    url: str = request.getfixturevalue(request.param)
    return url


@pytest.fixture(params=["memory", "redis_url", "cluster_url"])
def log_url(request: pytest.FixtureRequest) -> str | None:
    """Where the events are; None: in the process's memory."""
    return None if request.param == "memory" else request.getfixturevalue(request.param)


@pytest.fixture
async def event_log(log_url: str | None) -> AsyncIterator[Log]:
    if log_url is None:
        log = MemoryEventLog()
        yield log
        await log.aclose()
    else:
        async with a_relayed_log(log_url) as relayed:
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
