"""The port of sandboxes: what confines a CLI with native tools, and its commands, to a workspace.

Nothing but `bootstrap` and `doctor` knows which implementation there is.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from app.errors import Unavailable
from app.workspaces.records import HostTraffic
from app.workspaces.workspace import Workspace


class SandboxUnavailable(Unavailable):
    """This graph needs a sandbox for its tools, and this server has no working sandbox."""

    code = "sandbox_unavailable"


class CliPaths(NamedTuple):
    """The paths of a run's files as its CLI sees them; in a sandbox they differ from the real ones."""

    path: Path
    config: Path
    work: Path


class Wrapping(NamedTuple):
    """How a launcher starts a CLI in a sandbox."""

    cli: Path
    """Where the CLI is inside."""
    command: Sequence[str]
    """What starts it there, before its own command line."""
    environment: Mapping[str, str]
    """Variables that differ inside."""
    files: Sequence[Path]
    """What `command` reads from the descriptors from 3 on."""
    group: Path | None
    """The file by which a process joins a control group."""


class Sandbox(Protocol):
    """The sandbox of one run."""

    @property
    def paths(self) -> CliPaths:
        """Where the CLI finds its files."""
        ...

    @property
    def workspace(self) -> Workspace:
        """The working directory, which exists from `enter` to `aclose`."""
        ...

    @property
    def filled(self) -> bool:
        """Whether the workspace contains all its files."""
        ...

    @property
    def config(self) -> Path:
        """The path of the CLI's configuration and transcripts, from outside the sandbox."""
        ...

    @property
    def traffic(self) -> Sequence[HostTraffic]:
        """What its commands have exchanged with other hosts; complete after `aclose`."""
        ...

    def wrap(self, cli: Path, files: Mapping[Path, Path], directory: Path) -> Wrapping:
        """Prepare the start of a CLI that gets copies of `files`: real path -> path in the sandbox.

        `directory` is for files of its own, until the CLI has ended.
        """
        ...

    async def enter(self, pid: int) -> None:
        """Fill the workspace of the sandbox with this process id; its CLI is up and has got no prompt."""
        ...

    def exceeded_limit(self) -> str | None:
        """The limit that all commands together exceed; None if none."""
        ...

    async def aclose(self) -> None:
        """Release it after its processes have ended; the contents of the workspace are lost."""
        ...


class Sandboxes(Protocol):
    """Opens sandboxes of one kind."""

    async def require(self) -> None:
        """Raise `SandboxUnavailable` unless this machine can open some."""
        ...

    async def open(self, workspace: Workspace, network: Sequence[str]) -> Sandbox:
        """The sandbox of a run, to be closed by the caller. Raises `SandboxUnavailable`.

        `network` are the hosts that its commands reach, with the port if it is not 443.
        """
        ...
