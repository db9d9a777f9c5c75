import asyncio
import os
import subprocess
import sys
from pathlib import Path

import asyncpg

from app.simulator.script import Reply, Text, in_turn
from tests.e2e.stories import ASSISTANT, KEY, PATIENCE_S, WorldOf, a_request

ROOT = Path(__file__).parents[2]


async def runtally(directory: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "HOME": str(directory),
        "COLUMNS": "200",
        **variables,
    }
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "app", *arguments],
        env=environment,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_S,
    )


async def test_the_demo_shows_a_run_and_its_receipts(tmp_path: Path) -> None:
    done = await runtally(tmp_path, "demo", "--once", "--port", "0")

    assert done.returncode == 0, done.stderr
    for word in ("simulated", "URL", "rt_", "run_started", "core__get_current_time", "Asia/Tokyo", "done"):
        assert word in done.stdout
    receipts = done.stdout.partition("Receipts")[2]
    assert receipts.count("final") == 2


async def test_run_and_receipts_talk_to_a_server(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(in_turn(Reply([Text("hello from afar")])))
    there = {"RUNTALLY_URL": world.url, "RUNTALLY_API_KEY": KEY}

    ran = await runtally(tmp_path, "run", ASSISTANT, "hi", **there)
    shown = await runtally(tmp_path, "receipts", **there)

    assert ran.returncode == 0, ran.stderr
    assert "hello from afar" in ran.stdout
    assert "claude-sonnet-5-5" in shown.stdout


async def test_credit_is_managed_beside_a_running_server(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(in_turn())
    there = {"DATABASE_URL": str(world.services.settings.database_url)}

    granted = await runtally(tmp_path, "credits", "grant", "default", "--usd", "5", **there)
    adjusted = await runtally(
        tmp_path, "credits", "adjust", "default", "--usd", "-0.5", "--note", "typo", **there
    )
    terms = await runtally(
        tmp_path, "credits", "terms", "default", "--mode", "prepaid", "--monthly-budget-usd", "2", **there
    )
    shown = await runtally(tmp_path, "credits", "show", "default", **there)
    wrong = [
        await runtally(tmp_path, "credits", "grant", "nobody", "--usd", "5", **there),
        await runtally(tmp_path, "credits", "grant", "default", "--usd", "-5", **there),
        await runtally(tmp_path, "credits", "grant", "default", "--usd", "much", **there),
    ]

    assert [done.returncode for done in (granted, adjusted, terms, shown)] == [0] * 4, terms.stderr
    for amount in ("5.0000000", "-0.5000000", "4.5000000", "2.0000000", "prepaid"):
        assert amount in shown.stdout
    assert [done.returncode for done in wrong] == [2, 2, 2]
    assert not any("Traceback" in done.stderr for done in wrong)
    assert (await world.http.get("/v1/balance")).json()["left"] == 45_000_000


async def test_messages_without_a_price_are_priced_later(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(in_turn(Reply([Text("hi")], model="claude-new-1")))
    await world.http.post("/v1/runs/wait", json=a_request())
    there = {"DATABASE_URL": str(world.services.settings.database_url)}
    (tmp_path / "prices.yaml").write_text(
        "prices: [{model: claude-new-1, since: 2026-01-01, input: '100', output: '100'}]"
    )

    before = await runtally(tmp_path, "reprice", **there)
    after = await runtally(tmp_path, "reprice", RUNTALLY_PRICES_FILE="prices.yaml", **there)

    assert "Still no price: claude-new-1" in before.stdout
    assert "1 receipts adjusted, 0.0030000000 USD" in after.stdout
    assert (await world.http.get("/v1/balance")).json()["spent"] == 30_000


async def test_what_is_wrong_is_said_without_a_traceback(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(in_turn())
    there = {"RUNTALLY_URL": world.url, "RUNTALLY_API_KEY": KEY}
    (tmp_path / "graphs").mkdir()
    (tmp_path / "bad.yaml").write_text("prices: 5")
    (tmp_path / "roles.yaml").write_text("roles: {triage: gpt-4}")
    (tmp_path / "graphs" / "bad.md").write_text("---\ndescription: d\nturns: 3\n---\nHi.")
    cases = {
        "no graph": await runtally(tmp_path, "run", "claude_agents:nope", "hi", **there),
        "RUNTALLY_API_KEY": await runtally(tmp_path, "run", ASSISTANT, "hi"),
        "RUNTALLY_URL": await runtally(
            tmp_path, "receipts", RUNTALLY_URL="http://127.0.0.1:9", RUNTALLY_API_KEY=KEY
        ),
        "DATABASE_URL": await runtally(tmp_path, "serve", DATABASE_URL="mysql://x"),
        "bad.md: turns": await runtally(tmp_path, "serve", RUNTALLY_GRAPHS_DIR=str(tmp_path / "graphs")),
        "RUNTALLY_PRICES_FILE: prices": await runtally(tmp_path, "serve", RUNTALLY_PRICES_FILE="bad.yaml"),
        "RUNTALLY_MODELS_FILE: prices": await runtally(tmp_path, "serve", RUNTALLY_MODELS_FILE="bad.yaml"),
        "MODELS_FILE: roles.triage": await runtally(tmp_path, "serve", RUNTALLY_MODELS_FILE="roles.yaml"),
        "RUNTALLY_TOOLS": await runtally(tmp_path, "serve", RUNTALLY_TOOLS="no_such_module"),
        "RUNTALLY_DEFAULT_MODEL": await runtally(tmp_path, "serve", RUNTALLY_DEFAULT_MODEL="gpt-4"),
        "is not set": await runtally(tmp_path, "migrate"),
    }

    for word, done in cases.items():
        assert done.returncode in {1, 2}, word
        assert word in " ".join((done.stdout + done.stderr).split()), done.stderr
        assert "Traceback" not in done.stderr


async def test_an_old_schema_stops_the_server_and_migrate_mends_it(postgres: str, tmp_path: Path) -> None:
    admin = await asyncpg.connect(postgres)
    await admin.execute("CREATE DATABASE unmigrated")
    url = postgres.rpartition("/")[0] + "/unmigrated"

    refused = await runtally(tmp_path, "serve", "--port", "0", DATABASE_URL=url)
    migrated = await runtally(tmp_path, "migrate", DATABASE_URL=url)
    keyed = await runtally(
        tmp_path, "keys", "create", "--account", "acme", "--scope", "admin", DATABASE_URL=url
    )
    await admin.execute("DROP DATABASE unmigrated WITH (FORCE)")
    await admin.close()

    assert (refused.returncode, "runtally migrate" in refused.stderr) == (1, True)
    assert migrated.returncode == 0, migrated.stderr
    assert keyed.stdout.startswith("rt_")


async def test_a_refused_key_is_told_to_the_operator_at_start(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(in_turn())
    for key, word in (("sk-wrong", "ANTHROPIC_API_KEY was refused"), ("", "ANTHROPIC_API_KEY is not set")):
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "HOME": str(tmp_path),
            "DATABASE_URL": str(world.services.settings.database_url),
            "ANTHROPIC_API_KEY": key,
            "ANTHROPIC_BASE_URL": world.simulator.url,
        }
        server = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app", "serve", "--port", "0"),
            env=environment,
            cwd=tmp_path,
            stderr=asyncio.subprocess.PIPE,
        )
        assert server.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            while word not in (line := (await server.stderr.readline()).decode()):
                assert line, "the server ended without a word about its key"
        server.terminate()
        await server.communicate()
        assert server.returncode == 0
        assert "sk-wrong" not in line
