"""Workspace: the working directory of a run.

It is in memory and disappears with the run's sandbox. While the run executes, the agent owns it, so its
contents are untrusted.
"""

import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from app.workspaces.mounts import CopyBudget, FileBaseline, MountCopy, write_file
from app.workspaces.outputs import PlainFile, ScanBudget, content_of, plain_files, sha256_of
from app.workspaces.records import CollectedFiles, FileOrigin, GivenFile, StoredFile, Upload
from app.workspaces.spec import WorkspaceSpec

_WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
_ENTRIES_PER_FILE = 4
"""Other entries (directories, links) that may be read for each allowed file."""
_OVERGROWTH = 4 * _ENTRIES_PER_FILE


class Workspace:
    """The directory of one run."""

    def __init__(
        self,
        spec: WorkspaceSpec,
        roots: Sequence[Path],
        uploads: Iterable[Upload],
        given: Sequence[GivenFile] = (),
    ) -> None:
        """`roots` are the directories that mounts may copy from."""
        self.spec = spec
        self.path = Path(os.devnull)
        """The directory, once `populate` was called."""
        self._roots = roots
        self._uploads = uploads
        self._given = given
        self._baselines: dict[str, FileBaseline] = {}

    def populate(self, path: Path) -> None:
        """Copy the mounts into an empty directory, then uploads and given files, which replace others.

        Raises `HostPathRefused`, `WorkspaceTooLarge`, and `OSError` if two paths conflict.
        """
        self.path = path
        budget = CopyBudget.of_workspace(self.spec)
        for mount in self.spec.mounts:
            self._baselines |= MountCopy(mount, self._roots, budget).into(self.path)
        for upload in self._uploads:
            budget.take(len(upload.content))
            self._baselines[upload.path] = write_file(self.path / upload.path, upload.content, uploaded=True)
        for given, content, executable in self._given:
            budget.take(len(content))
            target = self.path / given
            self._baselines[given] = write_file(target, content, uploaded=False, executable=executable)
        self._uploads = ()

    def exceeds_file_limit(self) -> bool:
        """Whether it has far more files than can be stored; its size has a limit of its own."""
        system = os.statvfs(self.path)
        return system.f_files - system.f_ffree > _OVERGROWTH * self.spec.max_files

    def collect_outputs(self) -> CollectedFiles:
        """The files that the agent created or changed, and the uploads; call it after the run."""
        _make_readable(self.path)
        budget = CopyBudget.of_workspace(self.spec)
        files: list[StoredFile] = []
        truncated = False
        scan = ScanBudget(_ENTRIES_PER_FILE * (self.spec.max_files + len(self._baselines)))
        for found in plain_files(self.path, scan):
            before = None if found is None else self._baselines.get(found.path)
            if found is None:
                truncated = True
            elif before is None and _is_sandbox_placeholder(found):
                continue
            elif before is not None and self._is_unchanged(found, before):
                if before.uploaded:
                    files.append(StoredFile(found.path, "uploaded", found.size, before.sha256))
            elif budget.fits(found.size):
                budget.take(found.size)
                origin: FileOrigin = "created" if before is None else "changed"
                files.append(StoredFile(found.path, origin, found.size, sha256_of(self.path, found.path)))
            else:
                truncated = True
        return CollectedFiles(sorted(files, key=lambda file: file.path), truncated)

    def content(self, file: StoredFile) -> bytes:
        """The contents of a collected file."""
        return content_of(self.path, file.path, at_most=file.bytes)

    def _is_unchanged(self, found: PlainFile, before: FileBaseline) -> bool:
        return found.size == before.size and sha256_of(self.path, found.path) == before.sha256


def _is_sandbox_placeholder(found: PlainFile) -> bool:
    """Whether the CLI's sandbox created it: it covers dot-files with empty read-only files."""
    hidden = any(name.startswith(".") for name in found.path.split("/"))
    return found.size == 0 and hidden and not found.mode & _WRITABLE


def _make_readable(path: Path) -> None:
    """Make all files readable, whatever permissions the agent set; `chmod -R` follows no links."""
    # Python's own directory walkers recurse, and a directory can be nested deeper than the stack allows.
    chmod = shutil.which("chmod")
    if chmod is None:
        raise FileNotFoundError("chmod")
    command = [chmod, "-R", "u+rX", "--", f"{path}/."]
    subprocess.run(command, check=True, capture_output=True, env={})  # noqa: S603 - no shell
