"""What all commands have in common."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from filelock import FileLock
from typer.core import TyperGroup
from typer.testing import CliRunner

from app.cli.errors import Commands
from app.cli.main import app
from app.errors import AppError, Invalid, OperatorError

PRINT_NO_FACTS = {
    *("api", "approvals allow", "approvals deny", "batches results", "batches run", "chain export"),
    *("chain keygen", "chain public-keys", "connect", "demo", "export focus", "import", "init", "mcp import"),
    *("mcp login", "migrate", "profile", "serve", "sql-role", "worker"),
}
"""They print files, PEM, lines of JSON, a URL, or that something is done."""


def commands_of(command: Any, path: str = "") -> Iterator[tuple[str, set[str]]]:
    """Each command's path and options."""
    if not isinstance(command, TyperGroup):
        yield path, {option for parameter in command.params for option in parameter.opts}
        return
    for name, each in command.commands.items():
        yield from commands_of(each, f"{path} {name}".strip())


def test_every_command_that_prints_facts_prints_them_as_json() -> None:
    commands = dict(commands_of(typer.main.get_command(app)))

    assert {path for path, options in commands.items() if "--json" not in options} == PRINT_NO_FACTS


_PRINTS_AT_ITS_END = """
from app.cli.errors import Commands, run_commands

commands = Commands()
commands.command()(lambda: print("x"))
run_commands(commands)
"""


@pytest.mark.parametrize("program", [["-m", "app", "--version"], ["-c", _PRINTS_AT_ITS_END]])
def test_what_cannot_be_printed_is_an_error_in_our_words(program: list[str]) -> None:
    # Unbuffered, nothing would be left to be printed at the end.
    env = os.environ | {"PYTHONUNBUFFERED": ""}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, *program], stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=env
        )

    assert done.returncode == 1
    assert done.stderr == "What is printed or stored has no space: No space left on device.\n"


def test_a_program_without_standard_output_prints_nothing() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -m app --version >&-', sys.executable],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (OperatorError("x"), 1),
        (AppError("x"), 1),
        (Invalid("x"), 2),
        (typer.BadParameter("x"), 2),
        (typer.Exit(7), 7),
    ],
)
def test_errors_of_commands_become_exit_codes(error: Exception, status: int) -> None:
    commands = Commands()

    @commands.command("now")
    def fail() -> None:
        raise error

    @commands.command("later")
    async def fail_later() -> None:
        raise error

    assert [CliRunner().invoke(commands, [name]).exit_code for name in ("now", "later")] == [status] * 2


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    commands = Commands()
    (tmp_path / "lock").mkdir()

    @commands.command("open")
    def fail() -> None:
        FileLock(tmp_path / "lock").acquire()

    ended = CliRunner().invoke(commands, [])

    assert ended.exit_code == 1
    assert f"{tmp_path / 'lock'} cannot be used: Is a directory" in ended.output.replace("\n", "")


def test_what_a_command_logs_is_not_part_of_what_it_prints() -> None:
    program = """
import contextlib, structlog, sys
from app.__main__ import main
sys.argv = ["runtally", "--version"]
with contextlib.suppress(SystemExit):
    main()
structlog.get_logger().warning("something.happened")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.startswith("runtally ")
    assert "something.happened" not in done.stdout
    assert "something.happened" in done.stderr


@pytest.mark.parametrize(
    ("module", "libraries"),
    [
        ("app.cli.main", ("sqlalchemy", "mcp", "fastapi")),
        ("app.graphs.catalog", ("mcp", "mcp_types")),
        ("app.bootstrap.services", ("alembic", "mako", "reportlab", "temporalio", "anthropic")),
    ],
)
def test_libraries_that_few_processes_need_are_not_imported(module: str, libraries: tuple[str, ...]) -> None:
    program = f"import {module}, sys; print([name for name in sys.argv[1:] if name in sys.modules])"

    done = subprocess.run(
        [sys.executable, "-c", program, *libraries], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"
