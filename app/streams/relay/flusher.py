"""Flusher: passes what this process writes to the relay, many runs and events in one round trip."""

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol
from uuid import uuid4

import structlog

from app.errors import Unavailable
from app.platform.background import LONGEST_BACKOFF_S
from app.streams.port import LogEntry
from app.streams.relay.batch import EventBatch
from app.streams.relay.connection import RelayConnection
from app.streams.relay.stream_reader import read_whole_stream
from app.streams.relay.written_run import GRACE_S, LIFETIME_S, WrittenRun

_RUNS_PER_FLUSH = 256
_EVENTS_PER_FLUSH = 2000
_BYTES_PER_FLUSH = 2**20
_FIRST_PAUSE_S = 0.05

log = structlog.get_logger(__name__)


class Refusal(NamedTuple):
    """Why the relay did not append to a run's stream."""

    which: int
    """The index of the run."""
    is_fenced: bool
    last: int
    """The last position of the stream."""
    is_own: bool
    """Whether this writer wrote it."""


class FlushListener(Protocol):
    """What follows from the relay's answers."""

    def on_fenced(self, written: WrittenRun) -> None:
        """A later attempt writes this run."""
        ...

    def on_new_epoch(self) -> None:
        """The relay may have lost what it had."""
        ...


class Flusher:
    """Sends the runs that have something new; one round trip at a time, whatever is ready by then."""

    def __init__(self, relay: RelayConnection, listener: FlushListener, *, check_s: float) -> None:
        """`check_s`: how often the epoch is compared when there is nothing to send."""
        self._relay = relay
        self._listener = listener
        self._check_s = check_s
        self._writer = uuid4().hex
        self._runs: dict[str, WrittenRun] = {}
        self._ready: dict[str, WrittenRun] = {}
        self._wake = asyncio.Event()
        self._epoch: bytes | None = None
        self._pause_s = 0.0

    def __len__(self) -> int:
        """Count the runs that are written, or whose end the relay lacks."""
        return len(self._runs)

    def flush(self, written: WrittenRun) -> None:
        """Send what is new of this run as soon as possible."""
        self._runs[written.stream] = self._ready[written.stream] = written
        written.waits_since = written.waits_since or time.monotonic()
        self._wake.set()

    @property
    def lag_s(self) -> float:
        """For how long the relay has lacked what was written first."""
        waits = (written.waits_since for written in self._runs.values())
        since = min((each for each in waits if each is not None), default=None)
        return 0.0 if since is None else time.monotonic() - since

    async def claim(self, written: WrittenRun) -> Refusal | None:
        """Refuse all earlier attempts from now on, unless the stream has moved; marks the position `base`."""
        marker = EventBatch(written.base)
        if refusals := await self._append([(written, marker)]):
            return refusals[0]
        written.relayed = written.base
        return None

    def on_subscribed(self) -> None:
        """Compare all runs: a claim was missed, or the relay has failed over to a replica that lags."""
        self.check_all()

    def on_message(self, payload: bytes) -> None:
        """A run was resumed: compare it with the relay, if it is written here."""
        if written := self._runs.get(payload.decode(errors="replace")):
            self._ready[written.stream] = written
            self._wake.set()

    async def step(self) -> None:
        """One round trip, when there is something to send or the epoch is to be compared."""
        if self._pause_s:
            await asyncio.sleep(self._pause_s)
        if not self._ready:
            await self._wait()
        await self._send()

    async def drain(self) -> None:
        """Send everything that is left; gives up when the relay is unavailable."""
        # What has arrived of a round trip that was cancelled is unknown.
        self.check_all()
        while self._ready and await self._send():
            pass

    def check_all(self) -> None:
        """Compare every run with the relay, also those with nothing new."""
        for written in list(self._runs.values()):
            self._ready.setdefault(written.stream, written)
            self._keep_or_drop(written)
        self._wake.set()

    async def _wait(self) -> None:
        self._wake.clear()
        handle = asyncio.get_running_loop().call_later(self._check_s, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            handle.cancel()

    async def _send(self) -> bool:
        """Whether the relay has answered."""
        sent, sent_at = self._take_ready(), time.monotonic()
        attempts = [written.attempt for written, _ in sent]
        try:
            refusals = await self._append(sent)
            for refusal in refusals:
                written = sent[refusal.which][0]
                # Otherwise it was resumed here meanwhile, and the relay has refused the attempt before.
                if written.attempt == attempts[refusal.which]:
                    await self._reconcile(written, refusal)
        except Unavailable as error:
            self._relay.failed("events", error)
            self._pause_s = min(max(self._pause_s * 2, _FIRST_PAUSE_S), LONGEST_BACKOFF_S)
            # What has arrived, and what the relay has kept, is unknown.
            self.check_all()
            return False
        self._relay.succeeded("events")
        self._pause_s = 0.0
        refused = {refusal.which for refusal in refusals}
        for index, (written, batch) in enumerate(sent):
            if batch is not None and index not in refused:
                written.relayed = batch.last
                # What is left of it was written meanwhile, or is sent next.
                written.waits_since = sent_at if written.buffer.after(written.relayed, 1) else None
            self._keep_or_drop(written)
        return True

    async def _append(self, sent: Sequence[tuple[WrittenRun, EventBatch | None]]) -> list[Refusal]:
        keys: list[str] = []
        values: list[str | bytes | int] = []
        for written, batch in sent:
            keys.append(written.stream)
            is_marker = batch is not None and batch.is_end and not batch.lines
            values += (
                written.relayed,
                written.attempt,
                self._writer,
                "" if batch is None else f"{batch.last}-{written.attempt}",
                b"" if batch is None else batch.encode(),
                GRACE_S if is_marker else LIFETIME_S,
                b"" if batch is None else batch.encode_times(),
            )
        epoch, *refused = await self._relay.append(keys, values)
        if epoch != self._epoch:
            is_first, self._epoch = self._epoch is None, epoch
            if not is_first:
                self.check_all()
                self._listener.on_new_epoch()
        return [
            Refusal(index, bool(is_fenced), last, bool(is_own))
            for index, is_fenced, last, is_own in zip(*(refused[part::4] for part in range(4)), strict=True)
        ]

    async def _reconcile(self, written: WrittenRun, refusal: Refusal) -> None:
        """The stream is not as expected: continue after its last position, if this is still the writer."""
        if refusal.is_fenced:
            written.is_fenced = True
            log.warning("event_log.writer_fenced", run_id=written.run.run_id, attempt=written.attempt)
            self._listener.on_fenced(written)
            return
        if not refusal.is_own and refusal.last:
            earlier = await read_whole_stream(self._relay, written.run)
            written.buffer.insert_earlier(_up_to(earlier.entries, written.base))
        # Everything after it is sent again, as far as it was lost; readers drop what they know.
        written.relayed = refusal.last

    def _take_ready(self) -> list[tuple[WrittenRun, EventBatch | None]]:
        taken: list[tuple[WrittenRun, EventBatch | None]] = []
        events = size = 0
        for key, written in list(self._ready.items()):
            if len(taken) >= _RUNS_PER_FLUSH or events >= _EVENTS_PER_FLUSH or size >= _BYTES_PER_FLUSH:
                break
            del self._ready[key]
            batch = written.next_batch()
            taken.append((written, batch))
            if batch is not None:
                events += len(batch.lines)
                size += sum(map(len, batch.lines))
        return taken

    def _keep_or_drop(self, written: WrittenRun) -> None:
        if written.is_complete:
            if self._runs.get(written.stream) is written:
                del self._runs[written.stream]
            self._ready.pop(written.stream, None)
        elif written.buffer.after(written.relayed, 1) or written.deleted_at is not None:
            # At the end of the line: a long run must not hold up the others.
            self._ready[written.stream] = written


def _up_to(entries: Sequence[LogEntry], position: int) -> list[LogEntry]:
    return [entry for entry in entries if entry.position <= position]
