import asyncio
import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import typer
from structlog.testing import capture_logs
from typer.testing import CliRunner, Result

from app.bootstrap.services import open_services
from app.cli.errors import explained
from app.cli.main import app, console
from app.simulator.script import Reply, Text, in_turn
from tests.e2e.agents import without_cli
from tests.e2e.preloaded import run_preloaded
from tests.e2e.stories import ASSISTANT, KEY, WorldOf, a_request, the_settings, until
from tests.factories import scripted
from tests.log_lines import written_log
from tests.patience import PATIENCE_S
from tests.scripted import WriteMessage

ROOT = Path(__file__).parents[2]


def of_program(directory: Path, **variables: str) -> dict[str, str]:
    """The environment of a command that is a program of its own."""
    path = os.environ["PATH"]
    return {"PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(directory), "COLUMNS": "200", **variables}


async def runtally(directory: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command as a program of its own."""
    environment = of_program(directory, **variables)
    return await asyncio.to_thread(run_preloaded, arguments, environment, directory=directory)


async def command(directory: Path, *arguments: str, **variables: str) -> Result:
    """The same command in this process."""
    unset: dict[str, str | None] = dict.fromkeys(os.environ)
    environment = {**unset, "PATH": os.environ["PATH"], **variables}
    # It has the width of the terminal that the tests run in.
    console.width = 200

    def invoke() -> Result:
        with contextlib.chdir(directory):
            return CliRunner().invoke(app, arguments, env=environment)

    done = await asyncio.to_thread(invoke)
    # Anything else would be a traceback.
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


@without_cli
async def test_run_and_receipts_talk_to_a_server(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(in_turn(Reply([Text("hello from afar")])))
    there = {"RUNTALLY_URL": world.url, "RUNTALLY_API_KEY": KEY}

    ran = await command(tmp_path, "run", "messages:assistant", "hi", **there)
    shown = await command(tmp_path, "receipts", **there)

    assert ran.exit_code == 0, ran.stderr
    assert "hello from afar" in ran.stdout
    assert "claude-sonnet-5-5" in shown.stdout


@without_cli
async def test_a_conversation_of_another_program_goes_on(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(in_turn(Reply([Text("In Rome it is one.")])))
    there = {"RUNTALLY_URL": world.url, "RUNTALLY_API_KEY": KEY}
    told = [
        {"role": "user", "content": "What time is it in Tokyo?"},
        {"role": "assistant", "content": "Nine."},
    ]
    (tmp_path / "chat.json").write_text(json.dumps([{"role": "system", "content": "Be brief."}, *told]))
    options = ("--graph", "messages:assistant", "--prompt", "And in Rome?")

    done = await runtally(tmp_path, "import", "chat.json", *options, **there)

    assert done.returncode == 0, done.stderr
    assert "Left out: message of the role system, 1 times" in done.stdout
    assert "In Rome it is one." in done.stdout
    (conversation,) = (await world.http.get("/v1/sessions")).json()["items"]
    shown = (await world.http.get(f"/v1/sessions/{conversation['stateKey']}")).json()["messages"]
    assert [each["content"] for each in shown if each["type"] != "result"] == [
        *(each["content"] for each in told),
        "And in Rome?",
        "In Rome it is one.",
    ]
    assert "Nine." in str(world.simulator.requests[0].messages)


@without_cli
async def test_programs_read_what_commands_print(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(in_turn(Reply([Text("hello")])))
    here = {"DATABASE_URL": str(world.services.settings.database_url)}
    there = {"RUNTALLY_URL": world.url, "RUNTALLY_API_KEY": KEY}

    async def printed(*arguments: str) -> Any:
        with written_log():
            done = await command(tmp_path, *arguments, "--json", **here, **there)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    with written_log():
        ran = await command(tmp_path, "run", "messages:assistant", "hi", "--json", **there)
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    (receipt,) = await printed("receipts")
    key = await printed("keys", "create", "--account", "default", "--scope", "runs:read")

    assert (events[0]["type"], events[-1]["type"]) == ("run_started", "done")
    assert receipt["sourceReference"].startswith(events[0]["runId"])
    assert (await printed("credits", "grant", "default", "--usd", "5"))["grantedUsd"] == "5.0000000000"
    assert (await printed("credits", "adjust", "default", "--usd", "1", "--note", "typo"))[
        "adjusted"
    ] == 10**7
    assert (await printed("credits", "terms", "default", "--mode", "prepaid"))["mode"] == "prepaid"
    assert (await printed("credits", "show", "default"))["granted"] == 5 * 10**7
    assert (await printed("reprice"))["adjusted"] == 0
    verified = await runtally(tmp_path, "verify", "--json", **here)
    assert json.loads(verified.stdout)["findings"] == []
    assert await printed("keys", "revoke", key["id"]) == {"id": key["id"], "runsStopped": 0}
    assert await printed("approvals", "list") == await printed("batches", "list") == []
    assert "messages:assistant" in (await printed("graphs", "check"))["rules"]


@without_cli
async def test_messages_without_a_price_are_priced_later(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(in_turn(Reply([Text("hi")], model="claude-new-1")))
    await world.http.post("/v1/runs/wait", json=a_request())
    there = {"DATABASE_URL": str(world.services.settings.database_url)}
    (tmp_path / "prices.yaml").write_text(
        "prices: [{model: claude-new-1, unlisted: true, since: 2026-01-01, input: '100', output: '100'}]"
    )

    before = await command(tmp_path, "reprice", **there)
    after = await command(tmp_path, "reprice", RUNTALLY_PRICES_FILE="prices.yaml", **there)

    assert "Still no price: model=claude-new-1" in before.stdout
    assert "1 receipts adjusted, 0.0030000000 USD" in after.stdout
    assert (await world.http.get("/v1/balance")).json()["spent"] == 30_000


async def test_what_is_wrong_is_said_without_a_traceback(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(in_turn())
    there = {"RUNTALLY_URL": world.url, "RUNTALLY_API_KEY": KEY}
    cases = {
        "no graph": await command(tmp_path, "run", "claude_agents:nope", "hi", **there),
        "RUNTALLY_API_KEY": await command(tmp_path, "run", ASSISTANT, "hi"),
        "RUNTALLY_URL": await command(
            tmp_path, "receipts", RUNTALLY_URL="http://127.0.0.1:9", RUNTALLY_API_KEY=KEY
        ),
        "is not set": await command(tmp_path, "migrate"),
    }

    for word, done in cases.items():
        assert done.exit_code in {1, 2}, word
        assert word in " ".join(done.output.split()), done.output


async def started(directory: Path, name: str, value: str) -> None:
    """Open what a server opens first, with one setting of its own."""
    nowhere = "postgresql://nobody@127.0.0.1:9/none"
    settings = the_settings(directory, nowhere, "http://127.0.0.1:9", **{name: value})
    async with open_services(settings):
        pass


async def test_an_old_schema_stops_the_server_and_migrate_mends_it(
    postgres: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = await asyncpg.connect(postgres)
    await admin.execute("CREATE DATABASE unmigrated")
    url = postgres.rpartition("/")[0] + "/unmigrated"

    with pytest.raises(typer.Exit) as refused, explained():
        await started(tmp_path, "DATABASE_URL", url)
    told = capsys.readouterr().err
    migrated = await command(tmp_path, "migrate", DATABASE_URL=url, FORCE_COLOR="1")
    keyed = await command(
        tmp_path, "keys", "create", "--account", "acme", "--scope", "admin", DATABASE_URL=url
    )
    await admin.execute("DROP DATABASE unmigrated WITH (FORCE)")
    await admin.close()

    assert (refused.value.exit_code, "runtally migrate" in told) == (1, True)
    assert migrated.exit_code == 0, migrated.output
    assert "Migrating the database" in migrated.output
    assert keyed.stdout.startswith("rt_")


async def test_a_second_server_without_a_relay_is_refused(
    world_of: WorldOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = await world_of(in_turn(), executors=scripted(WriteMessage("Hi.")))
    url = str(world.services.settings.database_url)
    second = the_settings(tmp_path / "second", url, world.simulator.url, RUNTALLY_LEASE_S="1")

    with pytest.raises(typer.Exit) as refused, explained():
        async with asyncio.timeout(PATIENCE_S), open_services(second):
            pass

    assert refused.value.exit_code == 1
    assert "REDIS_URL" in capsys.readouterr().err
    await world.run(a_request(runId="r1"))


@pytest.mark.parametrize(
    ("key", "words"), [("sk-wrong", "ANTHROPIC_API_KEY was refused"), (None, "ANTHROPIC_API_KEY is not set")]
)
async def test_a_key_that_cannot_be_used_is_told_to_the_operator_at_start(
    world_of: WorldOf, key: str | None, words: str
) -> None:
    with capture_logs() as logs:
        world = await world_of(in_turn(), ANTHROPIC_API_KEY=key)
        readiness = world.services.readiness
        assert readiness is not None
        await until(lambda: readiness.checked)

    (told,) = [log for log in logs if log["event"] == "model.unreachable"]
    assert words in told["reason"]
    assert "sk-wrong" not in str(logs)
