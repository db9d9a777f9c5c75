"""Workspaces: gives runs their working directories, and keeps what they leave there for a while."""

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from app.db import Database, Transaction
from app.errors import Gone, NotFound, Unavailable
from app.ids import RunKey
from app.requests import relative_path
from app.workspaces.repository import (
    WorkspaceRecord,
    empty_expired,
    empty_workspace,
    find_content,
    find_workspace,
    insert_workspace,
    keep_only,
    list_files,
    note_harvested,
    put_file,
    uploads_of,
)
from app.workspaces.spec import WorkspaceSpec
from app.workspaces.workspace import CollectedFiles, KeptFile, Upload, Workspace

log = structlog.get_logger(__name__)

_BEFORE_IT_ENDS = timedelta(days=2)
"""How long a run may wait and go on before its workspace counts as forgotten."""

_LOOK_EVERY_S = 60.0
_EMPTIED_AT_ONCE = 20
_TRIES = 5
_RETRY_S = 2.0


class FileNotKept(NotFound):
    """This run has no such file."""

    code = "file_not_found"


class FilesExpired(Gone):
    """The files of this run are no longer kept."""

    code = "files_expired"


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a run."""

    files: Sequence[KeptFile]
    harvested: bool
    """Whether what the run has left is among them."""
    truncated: bool
    expires_at: datetime | None


class Workspaces:
    """Directories while runs go on; the database before and after, where every server finds them."""

    def __init__(self, database: Database, roots: Sequence[Path]) -> None:
        """`roots` are where mounts may take files from."""
        self._database = database
        self._roots = roots

    async def reserve(
        self, tx: Transaction, run: RunKey, spec: WorkspaceSpec, uploads: Sequence[Upload]
    ) -> None:
        """A new run will have a workspace, with these files in it."""
        await insert_workspace(tx, run, keep=_BEFORE_IT_ENDS + timedelta(seconds=spec.keep_s))
        for path, content in uploads:
            sha256 = hashlib.sha256(content).hexdigest()
            await put_file(tx, run, KeptFile(path, "uploaded", len(content), sha256), content)

    async def open(self, run: RunKey, spec: WorkspaceSpec) -> Workspace:
        """A run's directory, to be filled with its mounts and uploads. Raises `Unavailable`."""
        async with self._database.snapshot() as reader:
            return Workspace(spec, self._roots, await uploads_of(reader, run))

    async def keep(self, run: RunKey, workspace: Workspace) -> None:
        """Keep what the run has left; nobody may work in its directory any more.

        A database that stays away costs the files, not the run.
        """
        harvest = await asyncio.to_thread(workspace.harvest)
        for left in reversed(range(_TRIES)):
            try:
                await self._keep(run, workspace, harvest)
            except Unavailable as error:
                log.warning("the files of a run cannot be kept yet", reason=error.detail, tries_left=left)
                await asyncio.sleep(_RETRY_S)
            else:
                return
        log.error("the files of a run are lost", run_id=run.run_id)

    async def listing(self, run: RunKey) -> Listing:
        """The files of a run; none for one without a workspace. Raises `FilesExpired`."""
        async with self._database.snapshot() as reader:
            if (record := await find_workspace(reader, run)) is None:
                return Listing((), harvested=False, truncated=False, expires_at=None)
            _require_kept(record)
            files = await list_files(reader, run)
        return Listing(files, record.harvested, record.truncated, record.expires_at)

    async def read(self, run: RunKey, path: str) -> bytes:
        """The bytes of one file; raises `FileNotKept` and `FilesExpired`."""
        try:
            relative_path(path)
        except ValueError as error:
            # What can be no path is not looked for: PostgreSQL would refuse some of it.
            raise FileNotKept from error
        async with self._database.snapshot() as reader:
            if (record := await find_workspace(reader, run)) is None:
                raise FileNotKept
            _require_kept(record)
            content = await find_content(reader, run, path)
        if content is None:
            raise FileNotKept
        return content

    async def delete(self, tx: Transaction, run: RunKey) -> None:
        """Remove the files of a run that has ended."""
        await empty_workspace(tx, run)

    async def sweep(self) -> None:
        """Remove files whose time is up, until cancelled."""
        while True:
            try:
                while await self.empty_expired() == _EMPTIED_AT_ONCE:
                    pass
            except Unavailable as error:
                log.warning("old files cannot be removed yet", reason=error.detail)
            except Exception:
                # The server must not end of it, and the next try may go well.
                log.exception("could not remove old files")
            await asyncio.sleep(_LOOK_EVERY_S)

    async def empty_expired(self) -> int:
        """Remove the files of some workspaces whose time is up; returns of how many."""
        async with self._database.transaction() as tx:
            return await empty_expired(tx, most=_EMPTIED_AT_ONCE)

    async def _keep(self, run: RunKey, workspace: Workspace, harvest: CollectedFiles) -> None:
        async with self._database.transaction() as tx:
            await keep_only(tx, run, [file.path for file in harvest.files])
            for file in harvest.files:
                if file.origin != "uploaded":
                    content = await asyncio.to_thread(workspace.content, file)
                    await put_file(tx, run, file, content)
            keep = timedelta(seconds=workspace.spec.keep_s)
            await note_harvested(tx, run, truncated=harvest.truncated, keep=keep)


def _require_kept(record: WorkspaceRecord) -> None:
    if record.expired:
        raise FilesExpired
