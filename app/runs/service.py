"""RunService: starts runs, finds them and follows their events."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeAlias, Unpack
from uuid import uuid5

from app.errors import Unavailable
from app.ids import AccountId, RunId, RunKey, new_uuid
from app.platform.db import Database
from app.platform.logs.context import note
from app.platform.pagination import PageRequest
from app.requests.outcome import GraphFinal
from app.requests.principal import Principal
from app.requests.run_request import GraphRunRequest
from app.runs.commands.service import RunNotFound
from app.runs.conversations.service import ConversationBusy
from app.runs.deletion.service import RunDeleted, with_contents
from app.runs.dispatch.limits import QueueFull
from app.runs.drift.repository import drifted_runs
from app.runs.events.reader import RunEventReader
from app.runs.evidence.records import EvidenceRecord
from app.runs.evidence.repository import find_evidence
from app.runs.feedback.records import Feedback, Rating
from app.runs.feedback.repository import store_feedback
from app.runs.intake.planning import RunPlanning
from app.runs.intake.submission import RunSubmission
from app.runs.records import DriftedRuns, RunFilter, RunRecord
from app.runs.repository import find_run, newest_runs, stored_request
from app.runs.requests.codec import RequestCodec
from app.runs.requests.posted import MessageOrigin, PostedRun, Posting, joined, origin_of
from app.runs.supervisor import RunSupervisor
from app.streams.port import LogEntry

_MOST_SCHEMAS_KNOWN: Final = 4096


class RunLost(Unavailable):
    """The result of this run is not available now; try again later."""

    code = "run_lost"


def do_nothing(*_: object) -> None:
    """Without titles."""


@dataclass(frozen=True, slots=True)
class RunService:
    """The runs of all accounts."""

    database: Database
    codec: RequestCodec
    planning: RunPlanning
    submission: RunSubmission
    supervisor: RunSupervisor
    reader: RunEventReader
    on_start: "OnStart" = do_nothing
    """Is called with each run that is new."""
    _has_schema: dict[RunKey, bool] = field(default_factory=dict, init=False)
    """What `has_schema` has found, the newest last."""

    async def start(
        self,
        caller: Principal,
        request: GraphRunRequest,
        *,
        origin: MessageOrigin | None = None,
        **posting: Unpack[Posting],
    ) -> RunRecord:
        """Start a run, or join the existing one with its id and the same request.

        `origin`: of a message of a chat; without one its place is the end of the conversation, or `forkFrom`.

        Raises `ScopeMissing` if joining would show what other keys requested, `RunIdTaken`,
        `GraphNotFound`, `Invalid`, `InsufficientCredits`, `QueueFull`, `ConversationBusy`,
        `ConversationFull`, `HistoryConflict`, `ShuttingDown`, `Overloaded`, `JournalUnavailable`,
        `SandboxUnavailable`, `StorageFull`, `RunDeleted`, `MessagesNotStored`.
        """
        # None: a run that cannot exist yet.
        given_id = RunId(request.run_id) if request.run_id else id_of_key(caller, posting)
        run = RunKey(caller.account_id, given_id or RunId(str(new_uuid())))
        note(run_id=run.run_id)
        origin = origin or origin_of(request)
        known = posting.get("fingerprint") or origin.fingerprint
        fingerprint = known or await self.codec.fingerprint(request)
        posted = PostedRun(
            *(run, caller, request, origin, fingerprint), posting["request_id"], posting.get("caller_trace")
        )
        if given_id is not None and (existing := await self._find(run)) is not None:
            return posted.join(existing)
        posted, plan = await self.planning.plan(posted)
        try:
            started = await self.submission.submit(posted, plan)
        except (ConversationBusy, QueueFull):
            # Perhaps because of this very run, posted twice at once.
            if await self._find(run) is None:
                raise
            started = None
        if started is None:
            return posted.join(await self.get(run))
        self.on_start(self, posted, started)
        return started

    async def posted_before(self, caller: Principal, **posting: Unpack[Posting]) -> RunRecord | None:
        """The run that the same request has started, by its `Idempotency-Key` and fingerprint.

        Raises `ScopeMissing`, `RunIdTaken`, `RunDeleted`.
        """
        run_id, fingerprint = id_of_key(caller, posting), posting.get("fingerprint")
        if run_id is None or fingerprint is None:
            return None
        existing = await self._find(RunKey(caller.account_id, run_id))
        return None if existing is None else joined(caller, existing, fingerprint)

    async def get(self, run: RunKey) -> RunRecord:
        """The run; raises `RunNotFound`."""
        if (record := await self._find(run)) is None:
            raise RunNotFound
        return record

    async def get_with_contents(self, run: RunKey) -> RunRecord:
        """The run, if its contents were not deleted; raises `RunNotFound`, `RunDeleted`."""
        return with_contents(await self.get(run))

    async def give_feedback(self, run: RunKey, rating: Rating, note: str | None) -> Feedback:
        """Keep what a person thinks of a run's answer, in place of earlier feedback.

        Raises `RunNotFound`, `RunDeleted`.
        """
        async with self.database.transaction() as tx:
            feedback = await store_feedback(tx, run, rating, note)
        if feedback is None:
            await self.get_with_contents(run)
            raise RunNotFound
        return feedback

    async def list_runs(
        self,
        account_id: AccountId,
        page: PageRequest,
        chosen: RunFilter | None = None,
        *,
        database: Database | None = None,
    ) -> tuple[list[RunRecord], str | None]:
        """A page of an account's runs that are chosen, newest first, and the cursor of the next page.

        They are read from this `database`, or from the primary.
        """
        async with (database or self.database).snapshot() as reader:
            found = await newest_runs(reader, account_id, page, chosen or RunFilter())
        return page.cut(found, lambda run: (run.created_at, run.key.run_id))

    async def drifted(
        self,
        account_id: AccountId,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int,
    ) -> DriftedRuns:
        """Runs of an account that ended in this window and whose meters disagreed."""
        async with self.database.snapshot() as reader:
            return await drifted_runs(reader, account_id, since=since, until=until, limit=limit)

    async def events(self, run: RunKey, *, apart: int = 0) -> Sequence[LogEntry]:
        """The events of a run so far; raises `RunNotFound`, `RunDeleted`.

        Neighbouring texts of a message are one event, but for those before and after the position `apart`.
        """
        return await self.reader.read(await self.get_with_contents(run), apart=apart)

    async def request(self, run: RunKey) -> str | None:
        """What was stored of the request that started a run, as JSON; None once it is deleted."""
        async with self.database.read() as reader:
            stored = await stored_request(reader, run)
        return None if stored is None else await self.codec.read(stored)

    async def request_of(self, run: RunKey) -> str:
        """The same of a run that has its contents; raises `RunNotFound`, `RunDeleted`."""
        await self.get_with_contents(run)
        # It may be large, and may have been deleted since.
        async with self.codec.large_request(run.account_id):
            if (text := await self.request(run)) is None:
                raise RunDeleted
        return text

    async def has_schema(self, run: RunKey) -> bool:
        """Whether a run was requested to answer with an object."""
        known = self._has_schema.get(run)
        if known is None:
            # The request may be large, and clients that poll ask again and again.
            async with self.codec.large_request(run.account_id):
                known = await self.codec.has_schema(await self.request(run) or "{}")
            self._has_schema[run] = known
            if len(self._has_schema) > _MOST_SCHEMAS_KNOWN:
                del self._has_schema[next(iter(self._has_schema))]
        return known

    async def evidence(self, run: RunKey, *, after: int, limit: int) -> list[EvidenceRecord]:
        """What a run did, after a position; raises `RunNotFound`, `RunDeleted`."""
        await self.get_with_contents(run)
        async with self.database.snapshot() as reader:
            return await find_evidence(reader, run, after=after, limit=limit)

    async def has_end_before(self, record: RunRecord, position: int) -> bool:
        """Whether a reader that has received the event at this position has received the end of the run."""
        return await self.reader.has_end_before(record, position)

    async def follow(self, run: RunKey, *, after: int = 0) -> AsyncGenerator[Sequence[LogEntry], None]:
        """Yield a run's events after a position in batches until `Done`; leaving early has no effect.

        Raises `RunNotFound`, `RunDeleted` before the first batch.
        """
        # The row of a run that this process executes would only say that it has not ended. What an earlier
        # attempt has stored is read where the log begins later.
        record = None if self.supervisor.is_active(run) else await self.get_with_contents(run)
        async with aclosing(self.reader.follow(run, record, after=after)) as batches:
            async for batch in batches:
                yield batch

    async def wait(self, run: RunKey) -> GraphFinal:
        """The result of a run, once it has ended."""
        if (active := self.supervisor.find(run)) is not None:
            await active.ended.wait()
            if active.final is not None:
                return active.final
        async for _ in self.follow(run):
            pass
        final = (await self.get(run)).final
        if final is None:
            raise RunLost
        return final

    async def _find(self, run: RunKey) -> RunRecord | None:
        async with self.database.read() as reader:
            return await find_run(reader, run)


OnStart: TypeAlias = Callable[[RunService, PostedRun, RunRecord], None]


def id_of_key(caller: Principal, posting: Posting) -> RunId | None:
    """The id that the request's `Idempotency-Key` decides."""
    key = posting.get("idempotency_key")
    return None if key is None else run_of_key(caller, key)


def run_of_key(caller: Principal, idempotency_key: str) -> RunId:
    """The run that the caller's requests with this key start; so no table of keys is needed."""
    own = "" if caller.end_user is None else f"{caller.end_user}\n"
    return RunId(str(uuid5(caller.account_id, f"{own}{idempotency_key}")))
