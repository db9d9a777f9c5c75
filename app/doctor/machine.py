"""Checks of the machine: the SDK, the CLI, the sandbox, the data directory, the journal."""

import re
import shutil
from collections.abc import Iterable, Sequence
from importlib.metadata import requires, version
from pathlib import Path

from app.bootstrap.storage import open_journal, require_data_directory
from app.doctor.report import Check
from app.executors.claude_agent.process.cli import PINNED_VERSION, Cli
from app.executors.claude_agent.sandbox.probe import SandboxProbe, limits_in_force
from app.graphs.spec import GraphSpec
from app.ids import new_uuid
from app.platform.settings import Settings

_LITTLE_BYTES = 1024**3
_PIN = re.compile(r"([\w.-]+)\s*==\s*([\w.+!-]+)")


def check_sdk() -> Check:
    """Whether the packages that are pinned exactly have the versions that this release was tested with."""
    if others := other_than_pinned(requires("runtally") or ()):
        detail = f"not tested with this release: {', '.join(others)}; `make rehearse` shows what differs"
        return Check("sdk", "warning", detail)
    return Check("sdk", "ok", "the version that this release was tested with")


def other_than_pinned(requirements: Iterable[str]) -> list[str]:
    """The packages whose installed version is not the one that a requirement pins, with both versions."""
    # Each extra that includes another one repeats its requirements.
    pins = {pin.groups() for requirement in requirements if (pin := _PIN.match(requirement))}
    installed = [(name, version(name), pinned) for name, pinned in sorted(pins)]
    return [f"{name} {found} instead of {pinned}" for name, found, pinned in installed if found != pinned]


async def check_cli(cli: Cli, directory: Path) -> Check:
    """Whether the CLI starts and has the version the SDK was tested with."""
    version = await cli.version(directory)
    if version != PINNED_VERSION:
        return Check("cli", "error", f"{version or 'no version'} instead of {PINNED_VERSION}: {cli.path}")
    return Check("cli", "ok", f"{version}, the one bundled with the SDK")


async def check_sandbox(settings: Settings, graphs: Sequence[GraphSpec]) -> Check:
    """Whether native tools can be sandboxed; an error only if a graph has some."""
    problem = await SandboxProbe(behind_gateway=settings.claude_auth == "api_key").problem()
    needing = ", ".join(graph.id for graph in graphs if graph.native_tools)
    if problem is None:
        detail = f"native tools can be sandboxed; {limits_in_force()}; {reached_by(graphs)}"
        if settings.egress_allow_private:
            detail = f"{detail}; RUNTALLY_EGRESS_ALLOW_PRIVATE allows addresses in the server's own network"
            return Check("sandbox", "warning", detail)
        return Check("sandbox", "ok", detail)
    if needing:
        return Check("sandbox", "error", f"these graphs cannot run: {needing}: {problem}")
    return Check("sandbox", "ok", f"not available, but no graph needs it: {problem}")


def reached_by(graphs: Iterable[GraphSpec]) -> str:
    """Which hosts the commands of graphs may reach."""
    reaching = [f"{graph.id} {', '.join(graph.network)}" for graph in graphs if graph.network]
    return f"commands reach: {'; '.join(reaching)}" if reaching else "commands reach no host"


def check_data_directory(settings: Settings) -> Check:
    """Whether the data directory has free space; raises `DataDirectoryNotUsable`."""
    require_data_directory(settings)
    path = settings.data_dir.absolute()
    free = shutil.disk_usage(path).free
    detail = f"{path} is writable; {free // 1024**2} MiB are free"
    return Check("data_dir", "warning" if free < _LITTLE_BYTES else "ok", detail)


async def check_journal(settings: Settings) -> Check:
    journal = open_journal(settings, new_uuid())
    try:
        journal.acknowledge(())
        await journal.sync()
        journal.recover()
        problem, damaged = journal.problem, journal.damaged_files
    finally:
        journal.close()
    if problem is not None:
        return Check("journal", "error", f"receipts cannot be stored safely: {problem}")
    if damaged:
        detail = (
            f"{damaged} files of RUNTALLY_DATA_DIR/journal are damaged (in its folder damaged) or unreadable"
        )
        return Check("journal", "warning", detail)
    return Check("journal", "ok", "a record survives a power failure")
