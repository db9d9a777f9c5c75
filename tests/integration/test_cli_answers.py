"""What the CLI says of itself, and what is said of one that does not answer."""

import asyncio
import gc
import os
from pathlib import Path

import psutil
import pytest

from app.executors.claude_agent.process.cli import PINNED_VERSION, Cli, CliUnresponsive, bundled_cli
from app.executors.claude_agent.process.environment import Login
from tests.e2e.recording_cli import a_login
from tests.patience import PATIENCE_S


async def test_the_bundled_cli_is_the_pinned_one(tmp_path: Path) -> None:
    assert await Cli(bundled_cli()).version(tmp_path) == PINNED_VERSION
    assert os.listdir(tmp_path) == []  # noqa: PTH208


async def test_the_cli_reports_whether_it_is_logged_in(tmp_path: Path) -> None:
    cli, empty = Cli(bundled_cli()), tmp_path / "empty"
    empty.mkdir()

    assert await cli.login_status(tmp_path, Login.of(empty)) is None
    status = await cli.login_status(tmp_path, Login.of(a_login(tmp_path / "login")))
    assert status is not None
    assert status["apiProvider"] == "firstParty"


async def test_a_program_that_cannot_be_started_is_reported(tmp_path: Path) -> None:
    for cli in (Cli(tmp_path / "nothing"), Cli(Path("/bin/true"))):
        with pytest.raises(CliUnresponsive):
            await cli.login_status(tmp_path, Login.of(tmp_path))
    with pytest.raises(CliUnresponsive):
        await Cli(bundled_cli()).version(tmp_path / "nowhere")


async def test_a_cancelled_query_leaves_no_process(tmp_path: Path) -> None:
    program = tmp_path / "claude"
    # Its child keeps the pipe open for a while.
    program.write_text(f"#!/bin/sh\nsleep 1 &\necho $$ > {tmp_path}/started && exec sleep 60\n")
    program.chmod(0o700)
    starting = asyncio.create_task(Cli(program).version(tmp_path))
    async with asyncio.timeout(PATIENCE_S):
        while not (started := tmp_path / "started").exists() or not started.read_text():
            await asyncio.sleep(0.01)

    starting.cancel()
    await asyncio.wait({starting})

    pid = int(started.read_text())
    transports = [each for each in gc.get_objects() if isinstance(each, asyncio.SubprocessTransport)]
    assert all(transport.is_closing() for transport in transports if transport.get_pid() == pid)
    assert not psutil.pid_exists(pid)
    assert sorted(os.listdir(tmp_path)) == ["claude", "started"]  # noqa: PTH208
