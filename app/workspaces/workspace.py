"""Workspace: a run's working directory, from its first file to its last.

It is in memory and belongs to the run's jail: nothing has to be removed. While the run goes on it
belongs to the agent, and what it leaves there is not to be trusted.
"""

import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from app.workspaces.mounts import CopyBudget, FileBaseline, MountCopy, write_file
from app.workspaces.outputs import PlainFile, ScanBudget, content_of, plain_files, sha256_of
from app.workspaces.records import CollectedFiles, FileOrigin, StoredFile, Upload
from app.workspaces.spec import WorkspaceSpec

_WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
_ENTRIES_PER_FILE = 4
"""Directories, links and the like that may be among the files before nobody looks any further."""
_OVERGROWTH = 4 * _ENTRIES_PER_FILE


class Workspace:
    """The directory of one run."""

    def __init__(self, spec: WorkspaceSpec, roots: Sequence[Path], uploads: Iterable[Upload]) -> None:
        """`roots` are where mounts may take files from."""
        self.spec = spec
        self.path = Path(os.devnull)
        """Where it is, once it is."""
        self._roots = roots
        self._uploads = uploads
        self._baselines: dict[str, FileBaseline] = {}

    def populate(self, path: Path) -> None:
        """Lay out the mounts in an empty directory, then the uploads, which win.

        Raises `HostPathRefused`, `WorkspaceTooLarge`, and `OSError` where one is in another's way.
        """
        self.path = path
        budget = CopyBudget.of_workspace(self.spec)
        for mount in self.spec.mounts:
            self._baselines |= MountCopy(mount, self._roots, budget).into(self.path)
        for upload in self._uploads:
            budget.take(len(upload.content))
            self._baselines[upload.path] = write_file(self.path / upload.path, upload.content, uploaded=True)
        self._uploads = ()

    def exceeds_file_limit(self) -> bool:
        """Whether there are far more files in it than will be kept; its bytes have a limit of their own."""
        system = os.statvfs(self.path)
        return system.f_files - system.f_ffree > _OVERGROWTH * self.spec.max_files

    def collect_outputs(self) -> CollectedFiles:
        """What is there now and was not mounted; once nobody works in it any more."""
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
        """The bytes of a file that was harvested."""
        return content_of(self.path, file.path, at_most=file.bytes)

    def _is_unchanged(self, found: PlainFile, before: FileBaseline) -> bool:
        return found.size == before.size and sha256_of(self.path, found.path) == before.sha256


def _is_sandbox_placeholder(found: PlainFile) -> bool:
    """Whether the CLI's sandbox left it: it covers dot-files with empty ones nobody can write."""
    hidden = any(name.startswith(".") for name in found.path.split("/"))
    return found.size == 0 and hidden and not found.mode & _WRITABLE


def _make_readable(path: Path) -> None:
    """Undo what its maker may have forbidden us; `chmod -R` follows no link."""
    # Python's own walkers recurse once per level, and a directory can be deeper than that.
    chmod = shutil.which("chmod")
    if chmod is None:
        raise FileNotFoundError("chmod")
    command = [chmod, "-R", "u+rX", "--", f"{path}/."]
    subprocess.run(command, check=True, capture_output=True, env={})  # noqa: S603 - no shell
