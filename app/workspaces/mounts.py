"""MountCopy: copies the operator's files into a workspace.

Files may have changed since the check at startup. So each file is opened first, without following links, and
its type and location are checked on the open descriptor.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import structlog

from app.workspaces.changes import MAX_TEXT_BYTES
from app.workspaces.no_follow import DIRECTORY, FILE, open_no_follow
from app.workspaces.records import FileOrigin, GivenFile
from app.workspaces.spec import Mount, WorkspaceSpec, is_within, resolve_host_path

log = structlog.get_logger(__name__)

_DEPTH = 64


class WorkspaceTooLarge(Exception):
    """The files exceed the limits of the graph's workspaces; the text is for the operator."""


class FileBaseline(NamedTuple):
    """A file before the agent started."""

    size: int
    sha256: str
    origin: FileOrigin | None = None
    text: bytes | None = None
    """What a difference is compared with; None of a file of the graph, whose contents are not for clients."""


@dataclass(slots=True)
class CopyBudget:
    """The remaining number of files and bytes."""

    files: int
    bytes: int
    of: str

    @classmethod
    def of_workspace(cls, spec: WorkspaceSpec) -> "CopyBudget":
        """The initial budget of a workspace."""
        return cls(spec.max_files, spec.max_bytes, "the workspace")

    def fits(self, size: int) -> bool:
        """Whether one more file of this size fits."""
        return self.files > 0 and size <= self.bytes

    def take(self, size: int) -> None:
        """Subtract a file of this size; raises `WorkspaceTooLarge`."""
        if not self.fits(size):
            raise WorkspaceTooLarge(f"more files or bytes than {self.of} allows")
        self.files -= 1
        self.bytes -= size


class _MountedFile(NamedTuple):
    """An open file of a mount, and its path below the mount."""

    path: str
    descriptor: int


@dataclass(slots=True)
class MountCopy:
    """Copies the files of one mount."""

    mount: Mount
    roots: Sequence[Path]
    budget: CopyBudget
    _seen: set[tuple[int, int]] = field(default_factory=set)

    def into(self, workspace: Path) -> dict[str, FileBaseline]:
        """Copy all included files; returns them by their path in the workspace.

        Raises `HostPathRefused`, `WorkspaceTooLarge`.
        """
        real = resolve_host_path(self.mount.host_path, self.roots)
        limit = self.mount.max_bytes
        own = CopyBudget(
            self.budget.files,
            self.budget.bytes if limit is None else limit,
            f"the mount {self.mount.target}",
        )
        baselines: dict[str, FileBaseline] = {}
        for found in self._files(real):
            size = os.fstat(found.descriptor).st_size
            own.take(size)
            self.budget.take(size)
            target = f"{self.mount.target}/{found.path}" if found.path else self.mount.target
            baselines[target] = _copy(found.descriptor, workspace / target, at_most=size)
        return baselines

    def _files(self, real: Path) -> Iterator[_MountedFile]:
        if not real.is_dir():
            yield from self._file(real, None, "")
            return
        with _open_entry(real, None, DIRECTORY) as descriptor:
            if descriptor is not None and self._is_allowed(descriptor):
                yield from self._below(descriptor, "", 0)

    def _below(self, directory: int, path: str, depth: int) -> Iterator[_MountedFile]:
        status = os.fstat(directory)
        if depth > _DEPTH or (status.st_dev, status.st_ino) in self._seen:
            return
        self._seen.add((status.st_dev, status.st_ino))
        with os.scandir(directory) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            below = f"{path}/{entry.name}" if path else entry.name
            if entry.is_symlink():
                yield from self._follow_symlink(directory, entry.name, below, depth)
            elif entry.is_dir(follow_symlinks=False):
                with _open_entry(entry.name, directory, DIRECTORY) as descriptor:
                    if descriptor is not None:
                        yield from self._below(descriptor, below, depth + 1)
            elif self.mount.includes(below):
                yield from self._file(entry.name, directory, below)

    def _follow_symlink(self, directory: int, name: str, path: str, depth: int) -> Iterator[_MountedFile]:
        if not self.mount.follow_symlinks:
            return
        target = Path(os.path.realpath(f"/proc/self/fd/{directory}/{name}"))
        if target.is_dir():
            with _open_entry(target, None, DIRECTORY) as descriptor:
                if descriptor is not None and self._is_allowed(descriptor):
                    yield from self._below(descriptor, path, depth + 1)
        elif self.mount.includes(path):
            yield from self._file(target, None, path)

    def _file(self, name: str | Path, directory: int | None, path: str) -> Iterator[_MountedFile]:
        with _open_entry(name, directory, FILE) as descriptor:
            if descriptor is None:
                return
            status = os.fstat(descriptor)
            # A hard link may lead to a file outside the roots.
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and self._is_allowed(descriptor):
                yield _MountedFile(path, descriptor)
            else:
                log.warning("mount.file_skipped", mount=self.mount.target, path=path)

    def _is_allowed(self, descriptor: int) -> bool:
        """Whether the open file lies inside the roots, whatever path led to it."""
        return is_within(Path(f"/proc/self/fd/{descriptor}").readlink(), self.roots)


@contextmanager
def _open_entry(name: str | Path, directory: int | None, flags: int) -> Iterator[int | None]:
    with open_no_follow(name, directory, flags) as descriptor:
        if descriptor is None:
            log.warning("mount.file_skipped", reason="a link, missing, or not readable")
        yield descriptor


def _copy(descriptor: int, target: Path, *, at_most: int) -> FileBaseline:
    executable = os.fstat(descriptor).st_mode & stat.S_IXUSR
    with os.fdopen(os.dup(descriptor), "rb") as source:
        content = source.read(at_most)
    return write_file(target, GivenFile("", content, bool(executable)))


def write_file(target: Path, file: GivenFile) -> FileBaseline:
    """Write a file of a workspace before the agent starts."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(target, flags, 0o700 if file.is_executable else 0o600), "wb") as opened:
        opened.write(file.content)
    text = None if file.origin is None or len(file.content) > MAX_TEXT_BYTES else file.content
    return FileBaseline(len(file.content), hashlib.sha256(file.content).hexdigest(), file.origin, text)
