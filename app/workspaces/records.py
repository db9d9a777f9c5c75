"""The data of workspaces and their files."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

FileOrigin = Literal["uploaded", "created", "changed"]


@dataclass(frozen=True, slots=True)
class WorkspaceRecord:
    """A stored workspace; the fields are columns."""

    harvested: bool
    truncated: bool
    expires_at: datetime
    expired: bool


class Upload(NamedTuple):
    """A file uploaded with the run."""

    path: str
    content: bytes


class GivenFile(NamedTuple):
    """A file that the graph gives to each of its runs."""

    path: str
    content: bytes
    is_executable: bool


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A stored file of a run."""

    path: str
    origin: FileOrigin
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class CollectedFiles:
    """The files to store after a run."""

    files: Sequence[StoredFile]
    truncated: bool
    """Whether there were more than the limits allow."""


@dataclass(frozen=True, slots=True)
class WorkspaceListing:
    """The files of a run."""

    files: Sequence[StoredFile]
    outputs_collected: bool
    """Whether the files that the run left are included."""
    truncated: bool
    expires_at: datetime | None


@dataclass(slots=True)
class HostTraffic:
    """What the commands of a run have exchanged with one host."""

    host: str
    """With its port if that is not 443."""
    sent_bytes: int = 0
    received_bytes: int = 0
    connections: int = 0
