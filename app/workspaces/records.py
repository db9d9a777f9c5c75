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
    """A file that came with the run."""

    path: str
    content: bytes


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as the run left it."""

    path: str
    origin: FileOrigin
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class CollectedFiles:
    """What a run leaves behind."""

    files: Sequence[StoredFile]
    truncated: bool
    """Whether there was more than is kept."""


@dataclass(frozen=True, slots=True)
class WorkspaceListing:
    """The files of a run."""

    files: Sequence[StoredFile]
    outputs_collected: bool
    """Whether the files the run left are among them."""
    truncated: bool
    expires_at: datetime | None
