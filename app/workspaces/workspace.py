"""Workspace: the working directory of a run.

It is in memory and disappears with the run's sandbox. While the run executes, the agent owns it, so its
contents are untrusted.
"""

import os
import shutil
import stat
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from app.requests.outcome import FileChanges
from app.workspaces.changes import MAX_TEXT_BYTES, ChangeReport
from app.workspaces.mounts import CopyBudget, FileBaseline, MountCopy, write_file
from app.workspaces.outputs import PlainFile, ScanBudget, content_of, plain_files, sha256_of
from app.workspaces.records import CollectedFiles, FileOrigin, GivenFile, StoredFile
from app.workspaces.spec import WorkspaceSpec

_WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
_ENTRIES_PER_FILE = 4
"""Other entries (directories, links) that may be read for each allowed file."""
_REMEMBERED_BYTES = 8 * 1024 * 1024
"""Of texts that differences are made with: they are in the server's memory while the run executes."""

_BATCH_BYTES = 4 * 1024 * 1024
_OWN = ("created", "changed")
_OVERGROWTH = 4 * _ENTRIES_PER_FILE


class Workspace:
    """The directory of one run."""

    def __init__(
        self,
        spec: WorkspaceSpec,
        roots: Sequence[Path],
        files: Sequence[GivenFile],
        *,
        keeps: bool = False,
        has_expired: bool = False,
    ) -> None:
        """`roots` are the directories that mounts may copy from.

        `keeps`: the conversation's next turn begins with what this one leaves. `has_expired`: what the turn
        before has left is not kept any more.
        """
        self.spec = spec
        self.keeps = keeps
        self.has_expired = has_expired
        self.path = Path(os.devnull)
        """The directory, once `populate` was called."""
        self._roots = roots
        self._files = files
        self._baselines: dict[str, FileBaseline] = {}

    def populate(self, path: Path) -> None:
        """Copy the mounts into an empty directory, then the files in their order, which replace others.

        Kept files are the last: they replace those of mounts, and give way to all others.
        Raises `HostPathRefused`, `WorkspaceTooLarge`, and `OSError` if two paths conflict.
        """
        self.path = path
        budget, of_kept = CopyBudget.of_workspace(self.spec), CopyBudget.of_workspace(self.spec)
        for mount in self.spec.mounts:
            self._baselines |= MountCopy(mount, self._roots, budget).into(self.path)
        placed: set[str] = set()
        remembered = 0
        for file in sorted(self._files, key=lambda file: file.origin == "kept"):
            is_kept = file.origin == "kept"
            if is_kept and (file.path in placed or not self._has_room_at(file.path)):
                continue
            (of_kept if is_kept else budget).take(len(file.content))
            written = write_file(self.path / file.path, file)
            remembered += len(written.text or b"")
            is_remembered = remembered <= _REMEMBERED_BYTES
            self._baselines[file.path] = written if is_remembered else written._replace(text=None)
            placed.add(file.path)
        self._files = ()

    def _has_room_at(self, path: str) -> bool:
        """Whether no directory is at this path, and no file in the place of one of its directories."""
        target = self.path / path
        return not target.is_dir() and not any(parent.is_file() for parent in target.parents)

    def exceeds_file_limit(self) -> bool:
        """Whether it has far more files than can be stored; its size has a limit of its own."""
        system = os.statvfs(self.path)
        return system.f_files - system.f_ffree > _OVERGROWTH * self.spec.max_files

    def collect_outputs(self) -> CollectedFiles:
        """The files that the agent created or changed, and those of uploads and earlier turns that are left.

        Call it after the run.
        """
        _make_readable(self.path)
        scan = ScanBudget(_ENTRIES_PER_FILE * (self.spec.max_files + len(self._baselines)))
        entries = list(plain_files(self.path, scan))
        found = sorted(entry for entry in entries if entry is not None)
        budget = CopyBudget.of_workspace(self.spec)
        files: list[StoredFile] = []
        left_out: list[str] = []
        for each in found:
            if (origin := self._origin_of(each)) is None:
                continue
            is_counted = self.keeps or origin in _OWN
            if is_counted and not budget.fits(each.size):
                left_out.append(each.path)
                continue
            if is_counted:
                budget.take(each.size)
            files.append(self._stored(each, origin))
        gone = set() if scan.exhausted else self._baselines.keys() - {each.path for each in found}
        exceeds = scan.exhausted or bool(left_out)
        return CollectedFiles(
            [file for file in files if not exceeds or file.origin != "kept"],
            changes=self._changes({file.path: file for file in files if file.origin in _OWN}, gone),
            truncated=exceeds or None in entries,
            exceeds=exceeds,
            left_out=left_out,
        )

    def content(self, file: StoredFile) -> bytes:
        """The contents of a collected file."""
        return content_of(self.path, file.path, at_most=file.bytes)

    def batches(self, files: Iterable[StoredFile]) -> Iterator[list[tuple[StoredFile, bytes]]]:
        """Collected files with their contents, a few MiB at a time, or one larger file."""
        batch: list[tuple[StoredFile, bytes]] = []
        size = 0
        for file in files:
            if batch and size + file.bytes > _BATCH_BYTES:
                yield batch
                batch, size = [], 0
            batch.append((file, self.content(file)))
            size += file.bytes
        if batch:
            yield batch

    def _origin_of(self, found: PlainFile) -> FileOrigin | None:
        """Where a file is from; None if it is not listed: unchanged and the graph's, or the sandbox's own."""
        if (before := self._baselines.get(found.path)) is None:
            return None if _is_sandbox_placeholder(found) else "created"
        is_unchanged = found.size == before.size and sha256_of(self.path, found.path) == before.sha256
        return before.origin if is_unchanged else "changed"

    def _stored(self, found: PlainFile, origin: FileOrigin) -> StoredFile:
        is_executable = bool(found.mode & stat.S_IXUSR)
        sha256 = sha256_of(self.path, found.path) if origin in _OWN else self._baselines[found.path].sha256
        return StoredFile(found.path, origin, found.size, sha256, is_executable)

    def _changes(self, changed: Mapping[str, StoredFile], gone: Collection[str]) -> FileChanges:
        report = ChangeReport()
        for path in sorted({*changed, *gone}):
            before, after = self._baselines.get(path), changed.get(path)
            if before is None:
                report.created(path, None if after is None else self._text(after))
            elif after is None:
                report.deleted(path, before.text)
            else:
                report.changed(path, before.text, self._text(after))
        return report.result()

    def _text(self, file: StoredFile) -> bytes | None:
        return self.content(file) if file.bytes <= MAX_TEXT_BYTES else None


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
