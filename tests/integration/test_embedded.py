import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import asyncpg
import psutil
import pytest
from structlog.testing import capture_logs

from app.platform.embedded.postgres import DataDirectoryInUse, EmbeddedPostgres, EmbeddedPostgresFailed
from app.platform.embedded.watched import keep_running, start_watched, stop_watched
from tests.e2e.stories import is_running, until
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
HOLD = """
import asyncio, signal, sys
from pathlib import Path
import structlog
from app.platform.embedded.postgres import EmbeddedPostgres

async def main():
    async with EmbeddedPostgres.start(Path(sys.argv[1])) as server:
        print(server.url, flush=True)
        await asyncio.sleep(600)

structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
# A suite run in the background has this signal switched off, and so would we.
signal.signal(signal.SIGINT, signal.default_int_handler)
asyncio.run(main())
"""


async def query(url: str, statement: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def test_data_survives_a_restart_below_a_private_missing_parent_directory(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    with capture_logs() as logs:
        async with EmbeddedPostgres.start(private / "a" / "b") as server:
            await query(server.url, "CREATE TABLE kept AS SELECT 42 AS n")

        async with EmbeddedPostgres.start(private / "a" / "b") as server:
            assert await query(server.url, "SELECT n FROM kept") == 42
            assert await query(server.url, "SHOW fsync") == "on"

    assert [log["event"] for log in logs] == ["database.created"]
    assert private.stat().st_mode & 0o777 == 0o700
    assert (private / "a" / "b" / "postgres").stat().st_mode & 0o777 == 0o700


async def test_its_password_is_required_and_private(migrated_path: Path) -> None:
    async with EmbeddedPostgres.start(migrated_path) as server:
        with pytest.raises(asyncpg.InvalidPasswordError):
            await query(server.url.replace(_password(migrated_path), "guess"), "SELECT 1")

        for name in ("password", "url"):
            assert (migrated_path / "postgres" / name).stat().st_mode & 0o777 == 0o600


async def test_a_second_server_is_refused_but_a_command_can_attach(migrated_path: Path) -> None:
    async with EmbeddedPostgres.start(migrated_path) as server:
        with pytest.raises(DataDirectoryInUse, match="RUNTALLY_DATA_DIR"):
            async with EmbeddedPostgres.start(migrated_path):
                pass
        async with EmbeddedPostgres.attach(migrated_path) as neighbour:
            assert neighbour.url == server.url
        assert await query(server.url, "SELECT 1") == 1

    async with EmbeddedPostgres.attach(migrated_path) as alone:
        assert await query(alone.url, "SELECT 1") == 1


@pytest.mark.parametrize("all_at_once", [False, True])
async def test_a_killed_server_leaves_no_postgresql_and_no_damage(
    migrated_path: Path, *, all_at_once: bool
) -> None:
    parent, url = await _held(migrated_path)
    await query(url, "CREATE TABLE kept AS SELECT 42 AS n")
    family = parent.children(recursive=True)

    for process in [*(family if all_at_once else ()), parent]:
        # Those killed first may take others with them.
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    parent.wait()

    await until(lambda: not any(process.is_running() for process in family))
    async with EmbeddedPostgres.start(migrated_path) as server:
        assert await query(server.url, "SELECT n FROM kept") == 42


async def test_postgresql_that_ends_is_started_again(migrated_path: Path) -> None:
    with capture_logs() as logs:
        async with EmbeddedPostgres.start(migrated_path) as server:
            await query(server.url, "CREATE TABLE kept AS SELECT 42 AS n")
            for number in (signal.SIGKILL, signal.SIGTERM):
                postmaster = postmaster_of(migrated_path)

                postmaster.send_signal(number)

                await asyncio.to_thread(postmaster.wait, PATIENCE_S)
                assert await _queried(server.url, "SELECT n FROM kept") == 42
            watchdog = _watchdog_of(postmaster_of(migrated_path))
            family = [watchdog, *watchdog.children(recursive=True)]
            await until(lambda: [log["status"] for log in logs if "status" in log] == [-signal.SIGKILL, 0])

    assert len(family) > 1
    assert not any(each.is_running() for each in family)


async def test_postgresql_without_its_watchdog_is_ended_when_the_server_stops(migrated_path: Path) -> None:
    with capture_logs() as logs:
        async with EmbeddedPostgres.start(migrated_path) as server:
            postmaster = postmaster_of(migrated_path)
            _watchdog_of(postmaster).kill()
            await until(lambda: any(log["event"] == "embedded.unwatched" for log in logs))
            assert await query(server.url, "SELECT 1") == 1

    # It removes its file a little before it has ended.
    await until(lambda: not is_running(postmaster))


async def test_postgresql_that_was_left_running_is_ended_by_the_next_server(migrated_path: Path) -> None:
    parent, url = await _held(migrated_path)
    await query(url, "CREATE TABLE kept AS SELECT 42 AS n")
    left = postmaster_of(migrated_path)
    for process in (_watchdog_of(left), parent):
        process.kill()
    parent.wait()
    assert is_running(left)

    async with EmbeddedPostgres.start(migrated_path) as server:
        await until(lambda: not is_running(left))
        assert await query(server.url, "SELECT n FROM kept") == 42


async def test_a_program_that_ends_when_it_is_ready_is_not_said_to_run(tmp_path: Path) -> None:
    watched = start_watched("true", ["true"], directory=tmp_path, log=tmp_path / "log")
    await asyncio.to_thread(watched.wait, PATIENCE_S)

    assert not keep_running(watched)
    stop_watched(watched)


def _watchdog_of(postmaster: psutil.Process) -> psutil.Process:
    watchdog = postmaster.parent()
    assert watchdog is not None
    return watchdog


def postmaster_of(data_dir: Path) -> psutil.Process:
    lines = (data_dir / "postgres/data/postmaster.pid").read_text().splitlines()
    return psutil.Process(int(lines[0]))


async def _queried(url: str, statement: str) -> object:
    """The answer as soon as there is one."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with contextlib.suppress(OSError, asyncpg.PostgresError):
                return await query(url, statement)
            await asyncio.sleep(0.05)


async def test_control_c_reaches_the_server_first(migrated_path: Path) -> None:
    parent, url = await _held(migrated_path)

    os.killpg(parent.pid, signal.SIGINT)
    await asyncio.to_thread(parent.wait)

    with pytest.raises(OSError, match="Connect call failed"):
        await query(url, "SELECT 1")


async def test_a_directory_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(EmbeddedPostgresFailed, match="RUNTALLY_DATA_DIR"):
        async with EmbeddedPostgres.start(tmp_path / "file" / "data"):
            pass


async def _held(directory: Path) -> tuple[psutil.Popen, str]:
    parent = psutil.Popen(
        [sys.executable, "-c", HOLD, str(directory)],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    with parent.stdout as output:
        url = await asyncio.to_thread(output.readline)
    return parent, url.strip()


def _password(directory: Path) -> str:
    return (directory / "postgres" / "password").read_text()
