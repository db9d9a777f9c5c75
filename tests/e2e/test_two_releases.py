"""The release before the newest migration and this one, side by side on one database and relay."""

import asyncio
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from app.simulator.script import ApiRequest, Hold, Reply, Text, in_turn
from app.simulator.server import Simulator
from tests.conftest import a_database
from tests.e2e.agents import named, without_cli
from tests.e2e.servers import ROOT, a_server
from tests.e2e.stories import WorldOf, a_request
from tests.e2e.test_a_fleet_is_deployed import ids_of, read
from tests.factories import scripted
from tests.scripted import WriteMessage

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code before the newest migration; this code where the history is not known that far."""
    git = shutil.which("git")
    newest = ("log", "--first-parent", "-m", "-1", "--diff-filter=A", "--format=%H")
    if git is None or not (commit := _output(git, *newest, "--", "migrations/versions").decode().strip()):
        return ROOT
    archive = _output(git, "archive", f"{commit}^1")
    if not archive:
        return ROOT
    directory = tmp_path_factory.mktemp("release")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(directory, filter="data")
    return directory


def _output(*command: str) -> bytes:
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).stdout


async def _migrate(release: Path, url: str, directory: Path) -> None:
    command = [sys.executable, "-m", "app", "migrate"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "DATABASE_URL": url}
    await asyncio.to_thread(
        subprocess.run, command, cwd=release, env=environment, check=True, capture_output=True
    )


@without_cli
async def test_both_work_on_the_same_conversations_while_one_replaces_the_other(
    tmp_path: Path, postgres: str, redis_url: str, release: Path, agent: str
) -> None:
    hold = Hold(index=3)

    def respond(request: ApiRequest) -> Reply:
        answer = [Text(f"You said {request.last_text}.")]
        return Reply(answer, hold=hold if "one" in request.last_text else None)

    async with (
        a_database(postgres, template="template0") as url,
        Simulator(named(agent, respond)) as simulator,
    ):
        await _migrate(release, url, tmp_path)
        shared = {"DATABASE_URL": url, "REDIS_URL": redis_url, "RUNTALLY_MAX_RUNS_PER_ACCOUNT": "8"}
        (tmp_path / "old").mkdir()
        (tmp_path / "new").mkdir()
        async with a_server(tmp_path / "old", simulator.url, agent=agent, release=str(release), **shared) as (
            old,
            before,
        ):
            await before.post("/v1/runs", json=_turn("one"))
            await hold.reached.wait()
            await _migrate(ROOT, url, tmp_path)
            async with a_server(tmp_path / "new", simulator.url, agent=agent, **shared) as (_, after):
                queued = await after.post("/v1/runs", json=_turn("two"))
                reading = [asyncio.create_task(read(http, run)) for http in (before, after) for run in RUNS]
                hold.until.set()
                streams = [await each for each in reading]
                old.terminate()
                await asyncio.to_thread(old.wait)
                await after.post("/v1/runs/wait", json=_turn("three"))
                asked = simulator.requests[-1]
                stored = [await read(after, run) for run in RUNS]
                receipts = [await _receipts(after, f"run-{name}") for name in ("one", "two", "three")]

    assert queued.json()["status"] == "queued"
    for stream in streams:
        assert ids_of(stream) == sorted(set(ids_of(stream)))
        assert [frame for frame in stream if "event: done" in frame] == stream[-1:]
    assert streams[:2] == streams[2:]
    assert stored == streams[2:]
    for stream in stored:
        assert (times := times_of(stream)) == sorted(times)
        assert len(times) == len(stream)
    for text in ("You said one.", "You said two."):
        assert text in str(asked.messages)
    assert [[receipt["basis"] for receipt in each] for each in receipts] == [["final"]] * 3


async def test_a_run_of_a_later_release_can_be_read_and_deleted(world_of: WorldOf, database_url: str) -> None:
    world = await world_of(in_turn(), executors=scripted(WriteMessage("done")))
    events = await world.run(a_request(runId="later-1"))
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("""UPDATE runs SET final = final::jsonb || '{"later": 1}'""")
        await connection.execute("""UPDATE run_events SET data = data::jsonb || '{"later": 1}'""")
    finally:
        await connection.close()

    run = await world.ended("later-1")
    stored = await world.events("later-1")
    deleted = await world.http.delete("/v1/runs/later-1")

    assert (run["status"], run["final"]["content"]) == ("succeeded", "done")
    assert stored == events
    assert deleted.status_code == 204


RUNS = ("run-one", "run-two")
_AT = re.compile(r',"at":"([^"]+)"\}')


def times_of(stream: list[str]) -> list[str]:
    return [found for frame in stream for found in _AT.findall(frame)]


def _turn(text: str) -> dict[str, Any]:
    return a_request(text, runId=f"run-{text}", stateKey="chat-1")


async def _receipts(http: httpx.AsyncClient, run: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await http.get(f"/v1/runs/{run}/receipts")).json()["items"]
    return found
