"""What is read from the CLI program, played by shell scripts."""

from pathlib import Path

import pytest

from app.executors.claude_agent.process.cli import Cli, CliUnresponsive
from app.executors.claude_agent.process.environment import Login

NO_LOGIN = Login(None, None)


def a_cli(directory: Path, script: str, **environment: str) -> Cli:
    program = directory / "claude"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o700)
    return Cli(program, environment)


def contents_of(folder: Path) -> list[Path]:
    return list(folder.iterdir())


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """The parent of the folders that the CLI is started in."""
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


async def test_the_version_is_the_first_word_of_its_output(tmp_path: Path, runs: Path) -> None:
    cli = a_cli(tmp_path, 'test "$*" = --version && echo "2.9.1 (Claude Code)"')

    assert await cli.version(runs) == "2.9.1"
    assert contents_of(runs) == []


@pytest.mark.parametrize(
    ("output", "status"),
    [
        ('{"loggedIn": true, "apiProvider": "firstParty"}', {"loggedIn": True, "apiProvider": "firstParty"}),
        ('{"loggedIn": false}', None),
        ('{"loggedIn": "true"}', None),
        ("{}", None),
    ],
)
async def test_the_login_status_is_none_unless_it_is_logged_in(
    tmp_path: Path, runs: Path, output: str, status: object
) -> None:
    cli = a_cli(tmp_path, f"""test "$*" = "auth status --json" && echo '{output}'""")

    assert await cli.login_status(runs, NO_LOGIN) == status


async def test_a_login_status_that_is_no_json_is_reported(tmp_path: Path, runs: Path) -> None:
    cli = a_cli(tmp_path, "echo Please run /login")

    with pytest.raises(CliUnresponsive, match="did not report whether it is logged in"):
        await cli.login_status(runs, NO_LOGIN)
    assert contents_of(runs) == []


async def test_the_program_gets_the_given_variables_and_none_of_the_server(
    tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNTALLY_SERVER_ONLY", "secret")
    cli = a_cli(tmp_path, 'echo "$EXTRA-$RUNTALLY_SERVER_ONLY- rest"', EXTRA="given")

    assert await cli.version(runs) == "given--"


async def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    cli = a_cli(tmp_path, "echo 1.0")

    with pytest.raises(CliUnresponsive, match="the CLI cannot be started: No such file or directory"):
        await cli.version(tmp_path / "nowhere")
