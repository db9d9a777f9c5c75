"""Where CLI processes keep what they write: one folder per run, below one per server process."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import structlog
from claude_agent_sdk import project_key_for_directory
from filelock import FileLock, Timeout

from app.executors.claude_agent.programs import write_program
from app.executors.claude_agent.sandbox.bubblewrap import AGENT, COMMAND_SANDBOX, CONFIG, SYSCALL_FILTER
from app.executors.claude_agent.tools.builtin_tools import WORKSPACE

log = structlog.get_logger(__name__)

_REMOVALS = 20
_REMOVAL_PAUSE_S = 0.05


@contextmanager
def own_directory(parent: Path) -> Iterator[Path]:
    """A folder for this process's runs; what processes that died left behind is removed first.

    A lock file beside each folder tells the living from the dead.
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
            log.info("removing what a dead process left", directory=lock_file.stem)
            shutil.rmtree(lock_file.with_suffix(""), ignore_errors=True)
    except Timeout:
        return
    lock_file.unlink(missing_ok=True)


class CliPaths(NamedTuple):
    """Where the CLI finds what is its own; in a jail, not where it is."""

    path: Path
    config: Path
    work: Path


class RunDirectory:
    """A run's own folder: the CLI's home, configuration, temporary files and working directory."""

    def __init__(self, parent: Path, *, login: Path | None = None, jailed: bool = False) -> None:
        """`login`: the CLI uses this configuration directory, which is not ours, in place of its own."""
        self._config = login
        self._keeps_config = login is not None
        self.path = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
        for name in ("home", "tmp", "config", "work"):
            (self.path / name).mkdir()
        self.work = self.path / "work"
        """The working directory of a CLI without a jail; one in a jail works in its workspace."""
        inside = CliPaths(AGENT, CONFIG, Path(WORKSPACE))
        self.seen = inside if jailed else CliPaths(self.path, self.config, self.work)

    @property
    def config(self) -> Path:
        """The CLI's configuration, and the transcripts it writes."""
        return self._config or self.path / "config"

    def find_config(self, path: Path) -> None:
        """The CLI in a jail has a configuration of its own, which is to be found here."""
        self._config = path

    @property
    def transcripts(self) -> Path:
        """Where in the configuration the CLI keeps what was said in this working directory."""
        return self.config / "projects" / project_key_for_directory(self.seen.work)

    @property
    def system_prompt_file(self) -> Path:
        """Where the CLI reads the system prompt."""
        return self.path / "system_prompt.md"

    @property
    def command_sandbox_file(self) -> Path:
        """The program that starts the commands of a CLI in a jail."""
        return self.path / "command_sandbox"

    @property
    def syscall_filter_file(self) -> Path:
        """What commands of a CLI in a jail may not ask of the kernel."""
        return self.path / "syscalls"

    @property
    def jail_file(self) -> Path:
        """Bubblewrap's arguments, for a CLI in a jail."""
        return self.path / "jail"

    @property
    def pid_file(self) -> Path:
        """Where the launcher notes the CLI's process id."""
        return self.path / "pid"

    def files_for_jail(self) -> dict[Path, Path]:
        """What a CLI in a jail gets a copy of, and where it finds that."""
        laid_out = [path for path in self.config.rglob("*") if path.is_file()]
        return {
            self.system_prompt_file: AGENT / self.system_prompt_file.name,
            self.command_sandbox_file: COMMAND_SANDBOX,
            self.syscall_filter_file: SYSCALL_FILTER,
            **{path: CONFIG / path.relative_to(self.config) for path in laid_out},
        }

    def write_launcher(self, text: str) -> Path:
        """Write the program that starts the CLI; only we may read it."""
        return write_program(self.path / "launch", text)

    def remove(self) -> None:
        """Remove it with everything in it, and what the run left in a configuration that is not ours."""
        if self._keeps_config:
            shutil.rmtree(self.transcripts, ignore_errors=True)
        _remove_tree(self.path)


def _remove_tree(path: Path) -> None:
    """Remove a folder; a thread that a cancelled task left behind may still be removing parts of it."""
    for _ in range(_REMOVALS):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
        time.sleep(_REMOVAL_PAUSE_S)
    shutil.rmtree(path)
