"""Workspaces: working directories of runs, and the storage of their files."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

import structlog

from app.errors import Gone, NotFound, Unavailable
from app.events import FilesChanged, RunWarning
from app.ids import AccountId, RunId, RunKey
from app.platform.background import AFTER_START_S, forever
from app.platform.clock.clock import Clock
from app.platform.db import Database, DatabaseUnavailable, Transaction, require_attempt
from app.platform.objects.service import INSIDE, Objects
from app.requests.file_paths import relative_path
from app.workspaces import records, repository
from app.workspaces.archive import Archive, ArchiveFormat
from app.workspaces.notices import FILES_LOST, events_of
from app.workspaces.spec import WorkspaceSpec
from app.workspaces.workspace import Workspace

log = structlog.get_logger(__name__)

_RETENTION_BEFORE_END = timedelta(days=2)
"""Retention before a run has ended; covers waiting and execution."""

_SWEEP_INTERVAL_S = 60.0
_DELETE_BATCH = 20
_STORE_ATTEMPTS = 5


class WorkspaceFileNotFound(NotFound):
    """This run has no such file."""

    code = "file_not_found"


class FilesExpired(Gone):
    """The files of this run are no longer kept."""

    code = "files_expired"


class Workspaces:
    """Creates workspaces and stores their files where every server process can read them."""

    def __init__(
        self,
        database: Database,
        roots: Sequence[Path],
        objects: Objects = INSIDE,
        *,
        clock: Clock | None = None,
        retry_s: float = 2.0,
    ) -> None:
        """`roots` are the directories that mounts may copy from."""
        self._database = database
        self._roots = roots
        self._objects = objects
        self._clock = clock or Clock()
        self._retry_s = retry_s

    async def write_uploads(self, account_id: AccountId, uploads: Mapping[str, bytes]) -> None:
        """Before `reserve`: write those that are stored outside; raises `ContentsUnavailable`."""
        large = [content for content in uploads.values() if self._objects.takes(len(content))]
        await self._objects.write(account_id, {_sha256(content): content for content in large})

    async def reserve(
        self, tx: Transaction, run: RunKey, spec: WorkspaceSpec, uploads: Mapping[str, bytes]
    ) -> None:
        """Create the workspace of a new run with these uploads, by their paths."""
        await repository.insert_workspace(
            tx, run, keep=_RETENTION_BEFORE_END + timedelta(seconds=spec.keep_s)
        )
        files = [
            records.StoredFile(path, "uploaded", len(content), _sha256(content))
            for path, content in uploads.items()
        ]
        large = await self._hold(tx, run.account_id, files)
        await repository.upsert_files(
            tx, run, ((file, b"" if file in large else uploads[file.path]) for file in files)
        )

    async def open(
        self,
        run: RunKey,
        spec: WorkspaceSpec,
        given: Sequence[records.GivenFile] = (),
        *,
        in_conversation: bool = False,
        has_end_user: bool = False,
    ) -> Workspace:
        """The run's workspace, to be populated with mounts, uploads and the given files.

        Also with what the run before has left, of its conversation or end user, as the specification says.
        Raises `Unavailable`, `ContentLost`.
        """
        keeps = {"run": False, "conversation": in_conversation, "end_user": has_end_user}[spec.keep]
        find_before = (
            repository.find_state_of_end_user if spec.keep == "end_user" else repository.find_state_before
        )
        async with self._database.snapshot() as reader:
            uploads, kept = await repository.find_uploads(reader, run), list[records.FoundFile]()
            state = await find_before(reader, run) if keeps else None
            if state is not None and not state.expired:
                kept = await repository.find_kept_files(reader, RunKey(run.account_id, state.run_id))
        files = [
            *await self._given(run.account_id, uploads, "uploaded"),
            *given,
            *await self._given(run.account_id, kept, "kept"),
        ]
        has_expired = state is not None and state.expired
        return Workspace(spec, self._roots, files, keeps=keeps, has_expired=has_expired)

    async def store_outputs(
        self, run: RunKey, attempt: int, *, workspace: Workspace
    ) -> Sequence[FilesChanged | RunWarning]:
        """Store the files the run left; no process may be using the directory any more.

        Returns what clients are to know. If the storage outside stays unavailable the files are lost, but the
        run does not fail. Raises `AttemptOver` if the attempt that left them is over.
        """
        outputs = await asyncio.to_thread(workspace.collect_outputs)
        store = partial(self._store, run, attempt, workspace=workspace, outputs=outputs)
        if not await _persistently(store, self._retry_s, needed=True):
            log.error("workspace.files_lost", run_id=run.run_id)
            return [FILES_LOST]
        return events_of(outputs, workspace)

    async def record_traffic(self, run: RunKey, traffic: Sequence[records.HostTraffic]) -> None:
        """Add what the commands of an attempt have exchanged with other hosts to the run.

        If the database stays unavailable that is lost, but the run does not fail.
        """
        store = partial(self._add_traffic, run, traffic)
        if traffic and not await _persistently(store, self._retry_s, needed=False):
            log.error("workspace.traffic_lost", run_id=run.run_id)

    async def traffic(
        self, account_id: AccountId, run_ids: Sequence[RunId], *, database: Database | None = None
    ) -> Mapping[RunId, Sequence[records.HostTraffic]]:
        """What the commands of these runs have exchanged with other hosts, from this or our own database."""
        async with (database or self._database).read() as reader:
            return await repository.find_traffic(reader, account_id, run_ids)

    async def listing(self, run: RunKey) -> records.WorkspaceListing:
        """The files of a run, none if it has no workspace. Raises `FilesExpired`."""
        async with self._database.snapshot() as reader:
            if (record := await repository.find_workspace(reader, run)) is None:
                return records.NO_FILES
            _require_not_expired(record)
            files = await repository.list_files(reader, run)
        return records.WorkspaceListing(files, record.harvested, record.truncated, record.expires_at)

    async def read(self, run: RunKey, path: str) -> bytes:
        """The bytes of one file; raises `WorkspaceFileNotFound`, `FilesExpired` and `ContentLost`."""
        try:
            relative_path(path)
        except ValueError as error:
            # PostgreSQL refuses some of the texts that are no path.
            raise WorkspaceFileNotFound from error
        async with self._database.snapshot() as reader:
            if (record := await repository.find_workspace(reader, run)) is None:
                raise WorkspaceFileNotFound
            _require_not_expired(record)
            file = await repository.find_file(reader, run, path)
        if file is None:
            raise WorkspaceFileNotFound
        return (await self._given(run.account_id, [file], None))[0].content

    async def archive(self, run: RunKey, form: ArchiveFormat) -> AsyncIterator[bytes]:
        """An archive of a run's files, one file after the other. Raises `FilesExpired`."""
        archive, listing = Archive(form), await self.listing(run)
        for file in listing.files:
            given = records.GivenFile(file.path, await self.read(run, file.path), file.is_executable)
            if piece := await asyncio.to_thread(archive.add, given):
                yield piece
        yield archive.end()

    async def sweep(self) -> None:
        """Delete expired files until cancelled."""
        await forever(
            self._delete_all_expired, _SWEEP_INTERVAL_S, name="workspaces.sweep", first_after_s=AFTER_START_S
        )

    async def delete_expired_files(self) -> int:
        """Delete the files of some expired workspaces; returns of how many."""
        async with self._database.transaction() as tx:
            await repository.expire_early(tx)
            return await repository.delete_expired_files(tx, until=self._clock.now(), most=_DELETE_BATCH)

    async def _delete_all_expired(self) -> None:
        while await self.delete_expired_files() == _DELETE_BATCH:
            pass

    async def _add_traffic(self, run: RunKey, traffic: Sequence[records.HostTraffic]) -> None:
        async with self._database.transaction() as tx:
            await repository.add_traffic(tx, run, traffic)

    async def _store(
        self, run: RunKey, attempt: int, *, workspace: Workspace, outputs: records.CollectedFiles
    ) -> None:
        is_state = workspace.keeps and not outputs.exceeds
        files = [file for file in outputs.files if is_state or file.origin != "uploaded"]
        async for batch in _batches(workspace, (file for file in files if self._objects.takes(file.bytes))):
            await self._objects.write(run.account_id, {file.sha256: content for file, content in batch})
        async with self._database.transaction() as tx:
            large = await self._hold(tx, run.account_id, files)
            await repository.upsert_files(tx, run, ((file, b"") for file in large))
            small = [file for file in files if file not in large]
            if is_state:
                await _share_contents(tx, run.account_id, workspace=workspace, files=small)
                await repository.upsert_files(tx, run, ((file, b"") for file in small))
            else:
                async for batch in _batches(workspace, small):
                    await repository.upsert_files(tx, run, batch)
            await repository.delete_files_except(tx, run, [file.path for file in outputs.files])
            keep = timedelta(seconds=workspace.spec.keep_s)
            await repository.record_outputs_collected(
                tx, run, truncated=outputs.truncated, is_state=is_state, keep=keep
            )
            # Last: it locks the run's row, and large files take a while.
            await require_attempt(tx, run, attempt)

    async def _hold(
        self, tx: Transaction, account_id: AccountId, files: Sequence[records.StoredFile]
    ) -> set[records.StoredFile]:
        """Those of these files that are stored outside, and keep what was written for them."""
        large = {file for file in files if self._objects.takes(file.bytes)}
        await self._objects.hold(tx, account_id, {file.sha256 for file in large})
        return large

    async def _given(
        self, account_id: AccountId, files: Sequence[records.FoundFile], origin: records.FileOrigin | None
    ) -> list[records.GivenFile]:
        outside = (file.outside for file in files if file.outside is not None)
        contents = await self._objects.read(account_id, outside)
        return [
            records.GivenFile(
                file.path, contents.get(file.outside or "", file.content), file.is_executable, origin
            )
            for file in files
        ]


async def _share_contents(
    tx: Transaction, account_id: AccountId, *, workspace: Workspace, files: Sequence[records.StoredFile]
) -> None:
    """Store the contents that no file of the account has yet."""
    by_hash = {file.sha256: file for file in files if file.bytes}
    known = await repository.lock_contents(tx, account_id, by_hash)
    async for batch in _batches(workspace, (by_hash[sha256] for sha256 in sorted(by_hash.keys() - known))):
        await repository.insert_contents(tx, account_id, {file.sha256: content for file, content in batch})


async def _batches(
    workspace: Workspace, files: Iterable[records.StoredFile]
) -> AsyncIterator[list[tuple[records.StoredFile, bytes]]]:
    batches = workspace.batches(files)
    while (batch := await asyncio.to_thread(next, batches, None)) is not None:
        yield batch


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def _persistently(store: Callable[[], Awaitable[None]], retry_s: float, *, needed: bool) -> bool:
    """Try to store something some times; returns whether it was stored.

    `needed`: wait for the database, without which the run cannot end either, until we are cancelled.
    """
    attempts_left = _STORE_ATTEMPTS
    while attempts_left:
        try:
            await store()
        except Unavailable as error:
            attempts_left -= not (needed and isinstance(error, DatabaseUnavailable))
            log.warning("workspace.store_failed", reason=error.detail, attempts_left=attempts_left)
            await asyncio.sleep(retry_s)
        else:
            return True
    return False


def _require_not_expired(record: records.WorkspaceRecord) -> None:
    if record.expired:
        raise FilesExpired
