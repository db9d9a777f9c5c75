"""Reads the plain files of a directory that an untrusted agent has written.

Follows no links, opens only plain files, and limits depth and number of entries.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from app.requests.file_paths import relative_path
from app.workspaces.no_follow import DIRECTORY, FILE, open_no_follow

_DEPTH = 64
_CHUNK = 1024 * 1024


class PlainFile(NamedTuple):
    """A plain file and its path below the directory."""

    path: str
    size: int
    mode: int


class ScanBudget:
    """How many more directory entries may be read."""

    def __init__(self, entries: int) -> None:
        self._left = entries

    @property
    def exhausted(self) -> bool:
        """Whether there were more entries than allowed."""
        return self._left < 0

    def take(self) -> bool:
        """Count one entry; False if the budget is exhausted."""
        self._left -= 1
        return not self.exhausted


def plain_files(root: Path, budget: ScanBudget) -> Iterator[PlainFile | None]:
    """Every plain file; None for entries that are skipped: too deep, too many, or with an invalid name."""
    # With "/.", because the path may be a link in /proc.
    with open_no_follow(f"{root}/.", None, DIRECTORY) as directory:
        if directory is not None:
            yield from _below(directory, "", budget, depth=0)


def sha256_of(root: Path, path: str) -> str:
    """The SHA-256 of a plain file; raises `FileNotFoundError` for anything else."""
    digest = hashlib.sha256()
    with _file(root, path) as descriptor:
        while chunk := os.read(descriptor, _CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def content_of(root: Path, path: str, *, at_most: int) -> bytes:
    """The bytes of a plain file; raises `FileNotFoundError` for anything else."""
    with _file(root, path) as descriptor, os.fdopen(os.dup(descriptor), "rb") as file:
        return file.read(at_most)


def _below(directory: int, path: str, budget: ScanBudget, *, depth: int) -> Iterator[PlainFile | None]:
    with os.scandir(directory) as entries:
        for entry in entries:
            below = f"{path}/{entry.name}" if path else entry.name
            if not budget.take():
                yield None
                return
            if depth > _DEPTH or not _is_nameable(below):
                yield None
            elif entry.is_dir(follow_symlinks=False):
                with open_no_follow(entry.name, directory, DIRECTORY) as inside:
                    if inside is not None:
                        yield from _below(inside, below, budget, depth=depth + 1)
            elif entry.is_file(follow_symlinks=False):
                yield from _plain(entry, below)


def _plain(entry: os.DirEntry[str], path: str) -> Iterator[PlainFile]:
    # A process may have deleted it meanwhile.
    with suppress(FileNotFoundError):
        status = entry.stat(follow_symlinks=False)
        yield PlainFile(path, status.st_size, status.st_mode)


def _is_nameable(path: str) -> bool:
    try:
        relative_path(path)
    except ValueError:
        # Also lone surrogates: they stand for bytes that are not UTF-8.
        return False
    return True


@contextmanager
def _file(root: Path, path: str) -> Iterator[int]:
    *directories, name = path.split("/")
    parent = os.open(f"{root}/.", DIRECTORY)
    try:
        for directory in directories:
            below = os.open(directory, DIRECTORY, dir_fd=parent)
            os.close(parent)
            parent = below
        descriptor = os.open(name, FILE, dir_fd=parent)
    finally:
        os.close(parent)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileNotFoundError(path)
        yield descriptor
    finally:
        os.close(descriptor)
