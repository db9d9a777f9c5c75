"""A password of the database that is replaced while a server runs."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
import pytest_asyncio

from app.platform.db import Database, DatabaseUnavailable
from app.platform.postgres.passwords import (
    PasswordCommand,
    PasswordFile,
    PasswordNotAvailable,
    PasswordSource,
)
from app.platform.postgres.usability import DatabaseNotUsable
from tests.environments.pgbouncer import a_role
from tests.patience import PATIENCE_S


class Role:
    """A role whose password is in a file, and the URL without it."""

    def __init__(self, url: str, admin: asyncpg.Connection, file: Path) -> None:
        parts = urlsplit(url)
        self.name, self.admin, self.file = str(parts.username), admin, file
        self.url = f"postgresql://{self.name}@{parts.hostname}:{parts.port}{parts.path}"

    async def replace(self, password: str, *, in_file: bool) -> None:
        """Replace the password, and end all connections."""
        await self.admin.execute(f"ALTER ROLE {self.name} PASSWORD '{password}'")
        if in_file:
            self.file.write_text(f"{password}\n")
        await self.admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1", self.name
        )


@pytest_asyncio.fixture
async def role(postgres: str, tmp_path: Path) -> AsyncIterator[Role]:
    async with a_role(postgres) as url:
        admin = await asyncpg.connect(postgres)
        found = Role(url, admin, tmp_path / "password")
        await found.replace("first", in_file=True)
        yield found
        await admin.close()


async def reason_of(database: Database, *, containing: str) -> str:
    """Why it is unavailable, once it has noticed that its connections are closed."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with pytest.raises(DatabaseUnavailable) as raised:
                await database.time()
            if containing in raised.value.reason:
                return raised.value.reason


async def until_it_works(database: Database) -> None:
    """For as many connections as the pool has."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await asyncio.gather(*(database.time() for _ in range(20)), return_exceptions=True)
            if not any(isinstance(each, Exception) for each in found):
                return


def source_of(kind: str, role: Role) -> PasswordSource:
    """What reads the role's file."""
    return PasswordFile(role.file) if kind == "file" else PasswordCommand(f"cat '{role.file}'")


@pytest.mark.parametrize("kind", ["file", "command"])
async def test_new_connections_have_the_password_of_that_moment(role: Role, kind: str) -> None:
    database = await Database.open(role.url, password=source_of(kind, role))
    await role.replace("second", in_file=False)
    refused = await reason_of(database, containing="28P01")
    await role.replace("third", in_file=True)
    await until_it_works(database)
    await database.aclose()

    assert "first" not in refused


async def test_a_command_runs_once_for_the_connections_of_a_minute(role: Role, tmp_path: Path) -> None:
    program, runs = tmp_path / "program", tmp_path / "runs"
    program.write_text(f"open({str(runs)!r}, 'a').write('x'); print(open({str(role.file)!r}).read())")
    command = PasswordCommand(f"{sys.executable} {program}")
    database = await Database.open(role.url, password=command)
    await asyncio.gather(*(database.time() for _ in range(20)))
    for_connections = runs.read_text()
    await role.replace("second", in_file=True)
    after_refusals = [await command.read(refused="first") for _ in range(2)]
    await until_it_works(database)
    await database.aclose()

    assert (for_connections, runs.read_text(), after_refusals) == ("x", "xx", ["second"] * 2)


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("/nonexistent/program", "cannot be started: No such file or directory"),
        ("false", "ended with status 1"),
        ("true", "printed nothing"),
    ],
)
async def test_a_command_that_has_no_password_is_named(role: Role, command: str, problem: str) -> None:
    with pytest.raises(PasswordNotAvailable) as raised:
        await Database.open(role.url, password=PasswordCommand(command))

    assert str(raised.value).startswith(f"DATABASE_PASSWORD_COMMAND {problem}; ")


async def test_a_file_that_is_away_later_makes_the_database_unavailable(role: Role) -> None:
    database = await Database.open(role.url, password=PasswordFile(role.file))
    await role.replace("second", in_file=False)
    role.file.unlink()
    reason = await reason_of(database, containing="DATABASE_PASSWORD_FILE")
    await database.aclose()

    assert (
        reason == f"DATABASE_PASSWORD_FILE: the file {role.file} cannot be read: No such file or directory."
    )


async def test_a_wrong_password_is_refused_at_the_start(role: Role) -> None:
    await role.replace("second", in_file=False)

    with pytest.raises(DatabaseNotUsable, match="the password of the role") as raised:
        await Database.open(role.url, password=PasswordFile(role.file))
    assert "first" not in str(raised.value)
