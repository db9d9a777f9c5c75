"""Journal: the outbox of receipts, one append-only, checksummed, fsynced file per process.

A message is journalled when it starts, as it grows and when it completes, each time before a client can see
it. Receipts in the database are acknowledged. Files of a process that died are recovered by another
process; damaged ones are kept in the folder `damaged`.
"""

import asyncio
import errno
import fcntl
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import structlog
from filelock import FileLock, Timeout

from app.billing.receipts import journal_records
from app.billing.receipts.journal_segments import Segment, is_written, read_segment
from app.errors import OperatorError, Unavailable
from app.usage.records import UsageFact

log = structlog.get_logger(__name__)

SEGMENT_BYTES = 1024 * 1024
"""From this size on a new segment is begun, so that the old one can be deleted."""

_MOST_UNSYNCED = 64
"""Full segments that wait for `sync`; if its disk is slower, writing waits for it."""

_LOCK_S = 5.0
"""How long another process that looks for abandoned journals may hold a new lock."""

_DAMAGED = "damaged"
"""The folder of damaged segments, beside the others."""


class JournalUnavailable(Unavailable):
    """Receipts cannot be stored safely now, so no new run is accepted; try again later."""

    code = "journal_unavailable"


class JournalFailed(OperatorError):
    """The journal's directory cannot be used; the text names RUNTALLY_DATA_DIR."""


class Journal:
    """Records the usage of each message until its receipt is in the database."""

    def __init__(self, directory: Path, process_id: UUID, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Create this process's journal in `directory`; raises `JournalFailed`."""
        self.problem: str | None = None
        """Why the journal cannot be written now; None while it can."""
        self.void: set[str] = set()
        """Keys of messages that recovered processes have voided, and that are not acknowledged."""
        self._directory = directory
        self._stem = str(process_id)
        self._segment_bytes = segment_bytes
        self._recovered: list[Segment] = []
        self._segments: list[Segment] = []
        self._started: dict[str, UsageFact] = {}
        self._segment_number = self._record_number = 0
        self._unwritten = b""
        self._unsynced: list[int] = []
        """Descriptors of full segments, and of the directory they were created in."""
        self._written = self._synced = self._unreadable = 0
        self._syncing = asyncio.Lock()
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = FileLock(directory / f"{self._stem}.lock", mode=0o600)
            self._lock.acquire(timeout=_LOCK_S)
            self._descriptor = self._begin_segment()
        except OSError as error:
            message = f"RUNTALLY_DATA_DIR: the receipt journal cannot be opened: {error.strerror or error}"
            raise JournalFailed(message) from error

    @property
    def unsynced_bytes(self) -> int:
        """How much of what was written a power failure would lose; `sync` makes it 0."""
        return self._written - self._synced

    @property
    def pending_records(self) -> int:
        """How many messages are journalled that are not acknowledged."""
        # Each segment of a process that died has all that it left.
        of_others = {segment.lock.lock_file: len(segment.pending) for segment in self._recovered}
        return sum(len(segment.pending) for segment in self._segments) + sum(of_others.values())

    @property
    def size(self) -> int:
        return sum(segment.size for segment in (*self._recovered, *self._segments))

    @property
    def damaged_files(self) -> int:
        """Those that are kept aside, and journals that could not be read when they were to be recovered."""
        return len(list(self._directory.glob(f"{_DAMAGED}/*"))) + self._unreadable

    def start_message(self, fact: UsageFact, *, replaces: str | None = None) -> None:
        """Record that a message has started; `fact` is its usage so far.

        `replaces` is the key of a fact recorded before; it is acknowledged by the same record.
        """
        self._started[fact.key] = fact
        if replaces is None:
            self._append_fact(journal_records.STARTED, fact)
        else:
            self._append_fact(
                journal_records.REPLACED, fact, journal_records.encode_replacement(fact, replaces=replaces)
            )
            self._mark_acknowledged({replaces})

    def update_message(self, fact: UsageFact) -> None:
        """Record the usage so far of a message that has started.

        While the journal cannot be written, nothing is recorded: the completion of the message will be.
        """
        before = self._started.get(fact.key)
        if before is None or self.problem is not None:
            return
        usage = replace(before.usage, output_tokens=fact.usage.output_tokens)
        if fact.key in self._segments[-1].pending and fact == replace(before, usage=usage):
            self._append(journal_records.UPDATED, journal_records.encode_progress(fact))
        else:
            self._started[fact.key] = fact
            self._append_fact(journal_records.STARTED, fact)

    def complete_message(self, fact: UsageFact) -> None:
        """Record the final usage of a message; replaces what was recorded of it before."""
        self._started.pop(fact.key, None)
        self._append_fact(journal_records.COMPLETED, fact)

    def void_message(self, key: str) -> None:
        """Record that a message is not charged; kept until it is acknowledged."""
        self._mark_acknowledged({key})
        self._segments[-1].pending.add(key)
        self._append(journal_records.ACKNOWLEDGED, f"{key} {journal_records.VOID}".encode())

    def acknowledge(self, keys: Iterable[str]) -> None:
        """Record that receipts are in the database; deletes segments that are no longer needed."""
        finished = set(keys)
        self._append(journal_records.ACKNOWLEDGED, " ".join(sorted(finished)).encode())
        self._mark_acknowledged(finished)

    async def sync(self) -> None:
        """Return when everything recorded so far would survive a power failure."""
        target = self._written
        while self._synced < target:
            async with self._syncing:
                if self._synced >= target:
                    return
                written = self._written
                try:
                    await asyncio.to_thread(_sync_all, self._take_written())
                except OSError as error:
                    self._fail(error)
                    return
                self._synced = written

    def recover(self) -> list[UsageFact]:
        """The unacknowledged facts of processes that died; acknowledging them deletes their segments.

        A message whose completion was recorded has the basis `recovered`, any other `partial`.
        """
        found: list[UsageFact] = []
        self._unreadable = 0
        for name in self._other_journals():
            lock = FileLock(self._directory / f"{name}.lock", mode=0o600)
            try:
                lock.acquire(blocking=False)
                found.extend(self._recover(lock, name))
            except Timeout:
                # The process is alive, or another process recovers its journal at this moment.
                continue
            except OSError as error:
                self._unreadable += 1
                log.critical("journal.unreadable", process=name, reason=error.strerror)
                lock.release()
        return found

    def probe(self) -> None:
        """After a failure, try to write again, beginning with the records that could not be written."""
        if self.problem is not None and not self._unwritten:
            self._append(journal_records.ACKNOWLEDGED, b"")
        elif self.problem is not None:
            self._write()

    def renew(self) -> None:
        """Begin a new segment: what was recorded before is deleted as soon as it is acknowledged."""
        # If none can be created, the current one is kept until it is full.
        if self._segments[-1].size and not self._unwritten:
            with suppress(OSError):
                self._rotate()

    def close(self) -> None:
        """Stop writing; unacknowledged facts stay for the next process."""
        self.probe()
        for descriptor in (*self._take_unsynced(), self._descriptor):
            os.close(descriptor)
        self._drop_acknowledged(keep=0)
        for segment in self._recovered:
            segment.lock.release()
        self._lock.release()
        if not self._segments:
            Path(self._lock.lock_file).unlink(missing_ok=True)

    def _append_fact(self, kind: bytes, fact: UsageFact, payload: bytes | None = None) -> None:
        segment = self._segments[-1]
        segment.pending.add(fact.key)
        self._append(kind, journal_records.encode_fact(fact) if payload is None else payload)
        if self.problem is None:
            self._release_older(fact.key, segment)

    def _release_older(self, key: str, newest: Segment) -> None:
        """This record of a message replaces those in older segments."""
        older = [each for each in (*self._recovered, *self._segments) if key in each.pending]
        if older == [newest]:
            return
        for segment in older:
            if segment is not newest:
                segment.pending.discard(key)
        if any(not segment.pending for segment in older):
            try:
                # After a power failure, either the old record or the new one must be there.
                _sync_all(self._take_written())
            except OSError as error:
                self._fail(error)
                return
            self._drop_acknowledged()

    def _mark_acknowledged(self, finished: set[str]) -> None:
        for key in finished:
            self._started.pop(key, None)
        self.void -= finished
        for segment in [*self._recovered, *self._segments]:
            segment.pending -= finished
        self._drop_acknowledged()

    def _append(self, kind: bytes, payload: bytes) -> None:
        self._record_number += 1
        self._unwritten += journal_records.encode(self._record_number, kind, payload)
        self._write()

    def _write(self) -> None:
        try:
            # A full disk takes a part of the data; only the next write reports the error.
            while self._unwritten:
                written = os.write(self._descriptor, self._unwritten)
                self._unwritten = self._unwritten[written:]
                self._written += written
                self._segments[-1].size += written
            if os.lseek(self._descriptor, 0, os.SEEK_END) >= self._segment_bytes:
                self._rotate()
        except OSError as error:
            self._fail(error)
            return
        if self.problem is not None:
            log.info("journal.writable")
            self.problem = None

    def _fail(self, error: OSError) -> None:
        if self.problem is None:
            log.critical("journal.write_failed", reason=error.strerror)
        self.problem = error.strerror

    def _begin_segment(self) -> int:
        self._segment_number += 1
        path = self._directory / f"{self._stem}.{self._segment_number:06}.journal"
        directory = os.open(self._directory, os.O_RDONLY)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError:
            os.close(directory)
            raise
        # Unlike the lock file, it cannot be deleted without its records.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._unsynced.append(directory)
        self._segments.append(Segment(path, self._lock))
        return descriptor

    def _rotate(self) -> None:
        full, self._descriptor = self._descriptor, self._begin_segment()
        # Not synced here: that takes up to 20 ms, in which no run of this process would go on.
        self._unsynced.append(full)
        if len(self._unsynced) > 2 * _MOST_UNSYNCED:
            _sync_all(self._take_unsynced())
        self._drop_acknowledged()

    def _take_written(self) -> list[int]:
        # First what may fail.
        current = os.dup(self._descriptor)
        return [*self._take_unsynced(), current]

    def _take_unsynced(self) -> list[int]:
        taken, self._unsynced = self._unsynced, []
        return taken

    def _drop_acknowledged(self, *, keep: int = 1) -> None:
        # Oldest first: the completion of a message must not be deleted before its start.
        try:
            while len(self._segments) > keep and not self._segments[0].pending:
                self._segments[0].path.unlink(missing_ok=True)
                del self._segments[0]
            for segment in [segment for segment in self._recovered if not segment.pending]:
                self._drop_recovered(segment)
        except OSError as error:
            self._fail(error)

    def _drop_recovered(self, segment: Segment) -> None:
        self._delete(segment)
        self._recovered.remove(segment)
        if not any(other.lock is segment.lock for other in self._recovered):
            _delete_lock(segment.lock)

    def _delete(self, segment: Segment) -> None:
        """Delete a segment of a dead process; a damaged one is kept aside."""
        if not segment.is_damaged:
            segment.path.unlink(missing_ok=True)
            return
        folder = self._directory / _DAMAGED
        folder.mkdir(mode=0o700, exist_ok=True)
        segment.path.rename(folder / segment.path.name)

    def _other_journals(self) -> list[str]:
        """The journals of other processes, also those whose lock files were deleted."""
        files = [*self._directory.glob("*.lock"), *self._directory.glob("*.journal")]
        recovered = {Path(segment.lock.lock_file).stem for segment in self._recovered}
        return sorted({path.name.partition(".")[0] for path in files} - recovered - {self._stem})

    def _recover(self, lock: FileLock, stem: str) -> list[UsageFact]:
        paths = sorted(self._directory.glob(f"{stem}.*.journal"))
        if any(map(is_written, paths)):
            # Its process is alive, and has lost its lock file.
            lock.release()
            return []
        reader = journal_records.JournalReader()
        segments = [read_segment(Segment(path, lock), reader) for path in paths]
        remaining = reader.remaining
        self.void |= reader.void
        if not remaining and not reader.void:
            for segment in segments:
                self._delete(segment)
            _delete_lock(lock)
            return []
        if remaining:
            log.warning("journal.recovered", process=stem, receipts=len(remaining))
        # Which segment holds which message no longer matters: they are deleted together.
        for segment in segments:
            segment.pending = {*remaining, *reader.void}
        self._recovered.extend(segments)
        return list(remaining.values())


def _delete_lock(lock: FileLock) -> None:
    lock.release()
    Path(lock.lock_file).unlink(missing_ok=True)


def _sync_all(descriptors: Sequence[int]) -> None:
    """Sync files and directories to disk, and close them."""
    try:
        for descriptor in descriptors:
            try:
                os.fsync(descriptor)
            except OSError as error:
                # Not every file system can sync a directory.
                if error.errno != errno.EINVAL:
                    raise
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
