"""A whole server whose runs Temporal dispatches."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from app.simulator.script import in_turn
from tests.contracts.temporal import a_temporal_server
from tests.e2e.stories import WorldOf, a_request
from tests.factories import scripted
from tests.patience import PATIENCE_S
from tests.scripted import WriteMessage

pytestmark = pytest.mark.long


async def test_runs_end_and_an_unavailable_temporal_is_reported(world_of: WorldOf) -> None:
    with a_temporal_server() as temporal:
        await temporal.connect()
        world = await world_of(
            in_turn(), executors=scripted(WriteMessage("hi")), TEMPORAL_ADDRESS=temporal.address
        )
        await world.run(a_request(runId="one"))
        run = (await world.http.get("/v1/runs/one")).json()
        before = await world.http.get("/readyz")
        temporal.kill()
        async with asyncio.timeout(PATIENCE_S):
            # Results are shared for a moment.
            while (after := await world.http.get("/readyz")).json()["dispatcher"] == "ok":
                await asyncio.sleep(0.05)

    assert (run["status"], run["attempt"]) == ("succeeded", 0)
    assert before.json()["dispatcher"] == "ok"
    assert (after.status_code, after.json()["dispatcher"]) == (200, "unavailable")


def test_without_its_client_a_server_with_temporal_does_not_start(tmp_path: Path) -> None:
    """Only the setting imports the client; the sentence names the extra."""
    program = (
        "import asyncio, sys; sys.modules['temporalio'] = None\n"
        "from app.bootstrap.dispatch.temporal import TemporalClientMissing, open_temporal\n"
        "import app.bootstrap.services\n"
        "from app.platform.settings import Settings\n"
        "settings = Settings.load(TEMPORAL_ADDRESS='t:1', DATABASE_URL='postgresql://x')\n"
        "try: asyncio.run(open_temporal(settings, 'test'))\n"
        "except TemporalClientMissing as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
    )

    assert done.stdout == "TEMPORAL_ADDRESS needs the client of Temporal: pip install 'runtally[temporal]'\n"
