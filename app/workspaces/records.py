"""The data of workspaces and their files."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from app.ids import RunId
from app.requests.outcome import FileChanges

FileOrigin = Literal["uploaded", "created", "changed", "kept"]


@dataclass(frozen=True, slots=True)
class WorkspaceRecord:
    """A stored workspace; the fields are columns."""

    harvested: bool
    truncated: bool
    expires_at: datetime
    expired: bool


class GivenFile(NamedTuple):
    """A file with which a workspace begins."""

    path: str
    content: bytes
    is_executable: bool = False
    origin: FileOrigin | None = None
    """`uploaded` with the run or `kept` from the turn before; None for a file of the graph."""


class FoundFile(NamedTuple):
    """A stored file as the database has it."""

    path: str
    content: bytes
    is_executable: bool
    outside: str | None
    """The SHA-256 of its content if that is stored outside the database."""


class KeptState(NamedTuple):
    """The files that a conversation or an end user has at some point: those that one run has left."""

    run_id: RunId
    expired: bool


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A stored file of a run."""

    path: str
    origin: FileOrigin
    bytes: int
    sha256: str
    is_executable: bool = False


@dataclass(frozen=True, slots=True)
class CollectedFiles:
    """The files to store after a run."""

    files: Sequence[StoredFile]
    changes: FileChanges
    truncated: bool
    """Whether there is more than these files: too many, too large, or with a name that is no path."""
    exceeds: bool
    """Whether there were more files or bytes than the limits allow."""
    left_out: Sequence[str]
    """The files that did not fit, as far as they were looked at."""


@dataclass(frozen=True, slots=True)
class WorkspaceListing:
    """The files of a run."""

    files: Sequence[StoredFile]
    outputs_collected: bool
    """Whether the files that the run left are included."""
    truncated: bool
    expires_at: datetime | None


NO_FILES = WorkspaceListing((), outputs_collected=False, truncated=False, expires_at=None)


@dataclass(slots=True)
class HostTraffic:
    """What the commands of a run have exchanged with one host."""

    host: str
    """With its port if that is not 443."""
    sent_bytes: int = 0
    received_bytes: int = 0
    connections: int = 0
