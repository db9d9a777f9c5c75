"""The plain files of a directory somebody else has filled, perhaps to deceive.

No link is followed, nothing but a plain file is opened, and neither depth nor number can exhaust
the reader.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from app.requests import relative_path
from app.workspaces.no_follow import DIRECTORY, FILE, open_no_follow

_DEPTH = 64
_CHUNK = 1024 * 1024


class PlainFile(NamedTuple):
    """A plain file, by its path below the directory."""

    path: str
    size: int
    mode: int


class ScanBudget:
    """How many entries may still be looked at."""

    def __init__(self, entries: int) -> None:
        self._left = entries

    @property
    def exhausted(self) -> bool:
        """Whether there were more."""
        return self._left < 0

    def take(self) -> bool:
        """Whether one more may be looked at."""
        self._left -= 1
        return not self.exhausted


def plain_files(root: Path, budget: ScanBudget) -> Iterator[PlainFile | None]:
    """Every plain file; None for what must be left out: too deep, too many, of no name for us."""
    # The directory itself, where its name is a link of /proc.
    with open_no_follow(f"{root}/.", None, DIRECTORY) as directory:
        if directory is not None:
            yield from _below(directory, "", budget, depth=0)


def sha256_of(root: Path, path: str) -> str:
    """The hash of a plain file; raises `FileNotFoundError` for what is none."""
    digest = hashlib.sha256()
    with _file(root, path) as descriptor:
        while chunk := os.read(descriptor, _CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def content_of(root: Path, path: str, *, at_most: int) -> bytes:
    """The bytes of a plain file; raises `FileNotFoundError` for what is none."""
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
    # Where somebody still works, it may be gone by now.
    with suppress(FileNotFoundError):
        status = entry.stat(follow_symlinks=False)
        yield PlainFile(path, status.st_size, status.st_mode)


def _is_nameable(path: str) -> bool:
    try:
        relative_path(path)
    except ValueError:
        # Half surrogates, too: they stand for bytes that are no text.
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
