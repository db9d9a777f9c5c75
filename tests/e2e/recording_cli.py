"""The bundled CLI behind a program that writes down how it is started."""

import json
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.executors.claude_agent.process.cli import Cli, bundled_cli

_RECORDER = """#!/bin/sh
record=$(mktemp {records}/XXXXXX)
tr '\\0' '\\n' < /proc/self/environ > "$record.environment"
printf '%s\\n' "$@" > "$record.arguments"
exec {cli} "$@"
"""


@dataclass(frozen=True)
class Start:
    """One start of the CLI."""

    arguments: list[str]
    environment: dict[str, str]

    @property
    def is_run(self) -> bool:
        """Whether it was started for a conversation, and not to be asked about itself."""
        return "--input-format" in self.arguments

    def option(self, name: str) -> str:
        """What follows an option."""
        return self.arguments[self.arguments.index(name) + 1]


def a_recording_cli(directory: Path, extra: Mapping[str, str] | None = None) -> Cli:
    """The bundled CLI; every start leaves a record in the directory."""
    records = directory / "starts"
    records.mkdir()
    path = directory / "recorder"
    path.write_text(_RECORDER.format(records=shlex.quote(str(records)), cli=shlex.quote(str(bundled_cli()))))
    path.chmod(0o700)
    return Cli(path, extra or {})


def starts(directory: Path) -> list[Start]:
    """Every start so far."""
    records = sorted((directory / "starts").glob("*.arguments"))
    return [Start(record.read_text().splitlines(), _environment(record)) for record in records]


def assert_isolated(start: Start) -> None:
    """Nothing of the machine's settings, tools, servers, plugins and skills; asked explicitly."""
    assert {"--setting-sources=", "--strict-mcp-config", "--disable-slash-commands"} <= set(start.arguments)
    assert start.option("--tools") == ""
    assert start.option("--permission-mode") == "dontAsk"
    assert "--plugin-dir" not in start.arguments
    assert "--no-session-persistence" in start.arguments


def _environment(record: Path) -> dict[str, str]:
    lines = record.with_suffix(".environment").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def a_login(directory: Path) -> Path:
    """A configuration directory with a login that is worth nothing anywhere."""
    directory.mkdir()
    tomorrow = int((time.time() + 86_400) * 1000)
    login = {
        "accessToken": "sk-ant-oat01-of-a-test",
        "refreshToken": "sk-ant-ort01-of-a-test",
        "expiresAt": tomorrow,
        "scopes": ["user:inference"],
        "subscriptionType": "max",
    }
    (directory / ".credentials.json").write_text(json.dumps({"claudeAiOauth": login}))
    return directory
