"""The implementations of the ports."""

from collections.abc import AsyncIterator

import pytest

from app.streams.memory import MemoryEventLog
from tests.contracts.event_logs import Log, a_relayed_log


@pytest.fixture(params=["memory", "relayed"])
async def event_log(request: pytest.FixtureRequest) -> AsyncIterator[Log]:
    if request.param == "memory":
        log = MemoryEventLog()
        yield log
        await log.aclose()
    else:
        async with a_relayed_log(request.getfixturevalue("redis_url")) as relayed:
            yield relayed
