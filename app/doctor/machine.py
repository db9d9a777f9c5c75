"""What the machine has to have: the CLI, programs, a directory to write to."""

import shutil
import tempfile
from pathlib import Path

from app.bootstrap.storage import open_journal
from app.doctor.report import Check
from app.executors.claude_agent.cli import PINNED_VERSION, Cli
from app.ids import new_uuid
from app.settings import Settings

_LITTLE_BYTES = 1024**3
_SANDBOX = {"bwrap": "bubblewrap", "socat": "socat"}


async def check_cli(cli: Cli, directory: Path) -> Check:
    """Whether the CLI runs, and is the one the SDK was tested with."""
    version = await cli.version(directory)
    if version != PINNED_VERSION:
        return Check("cli", "error", f"{version or 'no version'} instead of {PINNED_VERSION}: {cli.path}")
    return Check("cli", "ok", f"{version}, the one bundled with the SDK")


def check_sandbox() -> Check:
    """Whether the programs are there that agents' commands would be confined by."""
    missing = [package for program, package in _SANDBOX.items() if shutil.which(program) is None]
    if missing:
        return Check("sandbox", "ok", f"not installed: {', '.join(missing)}; no graph needs it")
    return Check("sandbox", "ok", "bubblewrap and socat are installed")


def check_data_directory(settings: Settings) -> Check:
    """Whether it can be written to, and has room."""
    path = settings.data_dir.absolute()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=path) as file:
        file.write(b"runtally")
    free = shutil.disk_usage(path).free
    detail = f"{path} can be written to; {free // 1024**2} MiB are free"
    return Check("data_dir", "warning" if free < _LITTLE_BYTES else "ok", detail)


async def check_journal(settings: Settings) -> Check:
    """Write to a journal of our own, as the server does to its."""
    journal = open_journal(settings, new_uuid())
    try:
        journal.done(())
        await journal.flushed()
        problem = journal.problem
    finally:
        journal.close()
    if problem is not None:
        return Check("journal", "error", f"receipts cannot be kept safe: {problem}")
    return Check("journal", "ok", "a record survives a power cut")
