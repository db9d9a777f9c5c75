"""A server process that executes runs, for tests that kill or stop one.

python -m tests.contracts.dispatching_process DATABASE DIRECTORY PLACES [TEMPORAL QUEUE]

Its runs do not end. It prints `ready` when it dispatches.
"""

import asyncio
import sys
from pathlib import Path

from app.platform.background import forever
from app.platform.clock.lease import Lease
from app.platform.db import Database
from tests.contracts.dispatching import LEASE_S
from tests.contracts.temporal import Temporal, TemporalServer
from tests.integration.run_service import a_core, beat
from tests.scripted import WaitFor


async def main(url: str, directory: str, places: str, *temporal: str) -> None:
    """Go on until the process is killed."""
    database, queue = await Database.open(url), None
    if temporal:
        address, name = temporal
        queue = Temporal(TemporalServer(int(address.rpartition(":")[2])), name)
    hangs = [WaitFor(asyncio.Event())]
    async with a_core(
        database, Path(directory), lambda _: hangs, places=int(places), lease=Lease(LEASE_S), temporal=queue
    ) as core:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await forever(lambda: beat(core), LEASE_S / 4, name="heartbeats")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
