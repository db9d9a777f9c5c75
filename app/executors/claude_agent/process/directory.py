"""RunDirectory: everything a run's CLI writes, one folder per run, below one folder per server process."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog
from claude_agent_sdk import project_key_for_directory
from filelock import FileLock, Timeout

from app.executors.claude_agent.programs import write_program
from app.executors.claude_agent.sandbox.port import CliPaths

log = structlog.get_logger(__name__)

STARTED_BEFORE = '{"firstStartTime": "2026-01-01T00:00:00.000Z", "migrationVersion": 15}'
"""The CLI's own state. Without it each start would be its first: it would look for settings of older versions
to migrate, which takes 15 ms. A CLI that has a later migration than this one makes it."""

SERVER_NAMES = "server-[a-z0-9_-]{8}"
"""A pattern of the names of servers' folders, also where the CLI derives a name from a path."""

_REMOVALS = 20
_REMOVAL_PAUSE_S = 0.05


@contextmanager
def server_directory(parent: Path) -> Iterator[Path]:
    """A folder for this server process's runs; folders that killed servers left are removed first.

    A lock file beside each folder is held while its server process runs.
    """
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for lock_file in parent.glob("server-*.lock"):
        _sweep(lock_file)
    path = Path(tempfile.mkdtemp(prefix="server-", dir=parent))
    lock_file = path.with_suffix(".lock")
    with FileLock(lock_file, blocking=False):
        try:
            yield path
        finally:
            _remove_tree(path)
            lock_file.unlink(missing_ok=True)


def _sweep(lock_file: Path) -> None:
    try:
        with FileLock(lock_file, blocking=False):
            log.info("run_directory.swept", directory=lock_file.stem)
            shutil.rmtree(lock_file.with_suffix(""), ignore_errors=True)
    except Timeout:
        return
    lock_file.unlink(missing_ok=True)


class RunDirectory:
    """A run's own folder: the CLI's home, configuration, temporary files and working directory."""

    def __init__(self, parent: Path, *, login: Path | None = None, inside: CliPaths | None = None) -> None:
        """`login`: use this configuration directory, which outlives the run, instead of an own one.

        `inside`: the paths in the sandbox of its CLI.
        """
        self._config = login
        self._shares_config = login is not None
        self.path = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
        try:
            for name in ("home", "tmp", "config", "work"):
                (self.path / name).mkdir()
            if login is None:
                (self.path / "config" / ".claude.json").write_text(STARTED_BEFORE, encoding="utf-8")
        except OSError:
            _remove_tree(self.path)
            raise
        self.work = self.path / "work"
        """The working directory of a CLI without a sandbox; in a sandbox it is the workspace."""
        self.cli_paths = inside or CliPaths(self.path, self.config, self.work)

    @property
    def config(self) -> Path:
        """The CLI's configuration, and the transcripts it writes."""
        return self._config or self.path / "config"

    def use_config(self, path: Path) -> None:
        """Use the configuration of a sandboxed CLI, which can be reached at this path."""
        self._config = path

    @property
    def transcripts(self) -> Path:
        """Where in the configuration the CLI keeps the transcripts of this working directory."""
        return self.config / "projects" / project_key_for_directory(self.cli_paths.work)

    @property
    def system_prompt_file(self) -> Path:
        """Where the CLI reads the system prompt."""
        return self.path / "system_prompt.md"

    @property
    def pid_file(self) -> Path:
        """Where the launcher writes the CLI's process id."""
        return self.path / "pid"

    def files_for_sandbox(self) -> dict[Path, Path]:
        """Files that a sandboxed CLI gets copies of: real path -> path in the sandbox."""
        config_files = [path for path in self.config.rglob("*") if path.is_file()]
        return {
            self.system_prompt_file: self.cli_paths.path / self.system_prompt_file.name,
            **{path: self.cli_paths.config / path.relative_to(self.config) for path in config_files},
        }

    def write_launcher(self, text: str) -> Path:
        """Write the program that starts the CLI, readable by the server's user only."""
        return write_program(self.path / "launch", text)

    def remove(self) -> None:
        """Remove it with all its files, and the run's transcripts from a shared configuration."""
        if self._shares_config:
            shutil.rmtree(self.transcripts, ignore_errors=True)
        _remove_tree(self.path)


def _remove_tree(path: Path) -> None:
    """Remove a folder; a thread of a cancelled task may still be removing parts of it."""
    for _ in range(_REMOVALS):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
        time.sleep(_REMOVAL_PAUSE_S)
    shutil.rmtree(path)
