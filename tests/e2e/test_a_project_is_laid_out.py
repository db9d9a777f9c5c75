"""`runtally init`, then what its README says."""

import asyncio
import os
import re
import shlex
import sys
from pathlib import Path

import psutil
import pytest
from dotenv import dotenv_values

from app.simulator.demo import DemoModel
from app.simulator.server import Simulator
from runtally import AsyncClient, ToolCallResult
from tests.conftest import a_database
from tests.e2e.servers import _url_of
from tests.e2e.test_the_commands import command

pytestmark = pytest.mark.long

BIN = Path(sys.executable).parent


async def test_a_project_runs_as_it_was_laid_out(postgres: str, memory_path: Path) -> None:
    done = await command(memory_path, "init", "My Shop")
    project = memory_path / "My Shop"
    settings = {name: value or "" for name, value in dotenv_values(project / ".env").items()}
    key = settings["RUNTALLY_BOOTSTRAP_KEY"]

    assert done.exit_code == 0, done.output
    assert 'runtally demo --once claude_agents:my-shop "A shipping quote, please."' in done.stdout
    assert (project / ".env").stat().st_mode & 0o777 == 0o600
    assert settings["ANTHROPIC_API_KEY"] == ""
    assert not [
        path
        for path in project.rglob("*")
        if path.is_file() and "$" in path.read_text() and path.suffix != ".md"
    ]
    await asyncio.gather(
        passes(project, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        passes(project, str(BIN / "ruff"), "check", "--isolated", "."),
        passes(project, str(BIN / "hadolint"), "Dockerfile"),
        shows_itself(project),
        answers(project, postgres, key),
    )


async def shows_itself(project: Path) -> None:
    """The first command of the README works as it is printed."""
    (command_line,) = re.findall("^runtally demo .*$", (project / "README.md").read_text(), re.MULTILINE)
    output = await passes(project, *shlex.split(command_line))
    for words in ("simulated", "shipping__quote", '"usd": "4.50"', "1 kg to DE cost 4.50 USD", "Receipts"):
        assert words in output


async def passes(directory: Path, *arguments: str) -> str:
    """Run a program there; returns what it prints. It must succeed."""
    process = await asyncio.create_subprocess_exec(
        *arguments,
        cwd=directory,
        env={"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(directory), "COLUMNS": "200"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


async def answers(project: Path, postgres: str, key: str) -> None:
    """The server, started there, runs the project's graph with its tool."""
    async with a_database(postgres) as database_url, Simulator(DemoModel(word_delay_s=0)) as simulator:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(project),
            "DATABASE_URL": database_url,
            "ANTHROPIC_API_KEY": "sk-test",
            "ANTHROPIC_BASE_URL": simulator.url,
            "RUNTALLY_IDLE_PROCESSES": "0",
        }
        log = project.parent / "log"
        with log.open("wb") as output:
            program = [str(BIN / "runtally"), "serve", "--port", "0"]
            server = psutil.Popen(program, env=environment, cwd=project, stderr=output)
        try:
            async with AsyncClient(await _url_of(server, log, 0), key) as client:
                stream = client.stream("messages:my-shop", "A shipping quote, please.")
                results = [event.result async for event in stream if isinstance(event, ToolCallResult)]
                assert results == [{"usd": "4.50"}]
                assert "1 kg to DE cost 4.50 USD" in stream.final.content
        finally:
            server.terminate()
            await asyncio.to_thread(server.wait, 60)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "README.md").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "used" / "tools").mkdir(parents=True)
    (tmp_path / "used" / "tools" / "shipping.py").write_text("mine")

    for directory, named in (
        ("used", "used/tools/shipping.py"),
        ("linked", "README.md"),
        ("file", "no directory"),
    ):
        done = asyncio.run(command(tmp_path, "init", directory))
        assert done.exit_code == 1
        assert named in " ".join(done.output.split())
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["file", "shipping.py"]
    assert not (tmp_path / "elsewhere").exists()


def test_a_graph_gets_a_name_that_is_free(tmp_path: Path) -> None:
    for directory, graph in (("assistant", "my-assistant"), ("Größe 2", "gr-e-2"), ("---", "project")):
        asyncio.run(command(tmp_path, "init", f"./{directory}"))
        assert list((tmp_path / directory / "graphs").iterdir()) == [
            tmp_path / directory / "graphs" / f"{graph}.md"
        ]
