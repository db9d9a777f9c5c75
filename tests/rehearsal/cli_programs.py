"""The CLI as a program: its version, options, exit codes, standard error, and the variables that it knows."""

import mmap
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from app.executors.claude_agent.process.cli import PINNED_VERSION, bundled_cli
from app.executors.claude_agent.process.environment import cli_environment
from app.models.registry import ModelOptions
from tests.rehearsal.facts import Fact, names
from tests.rehearsal.started_cli import NOBODY_LISTENS, PATIENCE_S, a_folder, a_launcher

TOPIC = "CLI, program"
_OPTION = re.compile(r"^\s+(?:-\w, )?(--[\w-]+)", re.MULTILINE)
_OURS = ("CLAUDE_", "ANTHROPIC_", "DISABLE_", "MCP_", "API_")
_NO_SESSION = "00000000-0000-4000-8000-000000000000"
_ENDINGS = {
    "an unknown option": ["--no-such-option"],
    "a session that is not there": ["--bare", "-p", "--resume", _NO_SESSION, "go"],
    "a model that cannot be reached": ["--bare", "-p", "go"],
}
"""Command lines that fail."""


def program_facts() -> Iterator[Fact]:
    """What the program shows without a conversation."""
    yield Fact(TOPIC, "version", PINNED_VERSION, "app/doctor/machine.py")
    help_text = _ended(["--help"]).stdout
    yield Fact(TOPIC, "option", names(_OPTION.findall(help_text)), "app/executors/claude_agent/options")
    for name, arguments in _ENDINGS.items():
        ended = _ended(arguments)
        stated = {
            "exit code": str(ended.returncode),
            "stderr": ended.stderr.strip(),
            "stdout": ended.stdout.strip(),
        }
        yield Fact(TOPIC, name, stated, "app/executors/claude_agent/process/cli_process.py")
    yield Fact(TOPIC, "variable", _known_variables(), "app/executors/claude_agent/process/environment.py")


def _ended(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    with a_folder() as run:
        command: list[str | Path] = [a_launcher(run, NOBODY_LISTENS), *arguments]
        return subprocess.run(
            command,
            cwd=run.work,
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )


def _known_variables() -> dict[str, str]:
    """Which of the variables that we set appear in the program."""
    environment = cli_environment(
        token="t",
        base_url="u",
        directory=Path("/"),
        longest_tool_s=1,
        options=ModelOptions(thinking="disabled"),
    )
    with bundled_cli().open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as program:
        return {
            name: "known" if program.find(name.encode()) >= 0 else "unknown"
            for name in sorted(environment)
            if name.startswith(_OURS)
        }
