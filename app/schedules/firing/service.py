"""ScheduleFiring: starts the run of a due time exactly once, whichever process does it, and however often.

The due time is claimed in one short transaction, its run is started outside any, the outcome is recorded in
another. The id of the run is derived from the due time: a start that is repeated joins the run.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from uuid import UUID

import structlog

from app.errors import AppError, TooMany, Unauthenticated, Unavailable
from app.ids import RunId, RunKey
from app.platform.background import run_to_completion
from app.platform.db import Database, Transaction
from app.requests.principal import AccountSuspended
from app.runs.commands.service import RunCommands, RunNotFound
from app.runs.delegated.service import DelegatedRuns, StoredOrder
from app.schedules.firing.agenda import add_due_time, claim, take_due_times, wake
from app.schedules.firing.repository import find_due, record_started, update_open
from app.schedules.records import Claim, FiringConfig, PausedReason, Schedule, ScheduledRun, Trigger
from app.schedules.repository import lock_schedule, pause_schedule, stored_request, update_schedule

log = structlog.get_logger(__name__)

_FIRST_PAUSE = timedelta(seconds=2)


class ScheduleFiring:
    """Starts the runs of schedules."""

    def __init__(
        self,
        database: Database,
        *,
        runs: DelegatedRuns,
        commands: RunCommands,
        read_time: Callable[[], Awaitable[datetime]] | None = None,
        config: FiringConfig | None = None,
    ) -> None:
        """`read_time`: the database's clock."""
        self._database = database
        self._runs = runs
        self._commands = commands
        self.read_time = read_time or database.time
        self.config = config or FiringConfig()

    async def fire_now(self, schedule: UUID, run_id: RunId | None = None) -> ScheduledRun | None:
        """Start a run as if the schedule were due now, also if it is paused; None if it is deleted.

        With a `run_id` only once: then the due time that has it is returned.
        """
        added: list[datetime] = []

        async def add(tx: Transaction, locked: Schedule, now: datetime) -> None:
            if run_id is not None and (known := await find_due(tx, schedule, run_id)) is not None:
                added.append(known.due_at)
                return
            added.append(await self._unused(tx, schedule, now))
            await add_due_time(tx, locked, added[0], now=now, trigger="request", run_id=run_id)

        if (claims := await self._decide(schedule, add)) is None:
            return None
        await self._start_all(claims)
        async with self._database.read() as reader:
            return await find_due(reader, schedule, added[0])

    async def take(self, schedule: UUID) -> list[Claim] | None:
        """Decide everything that has become due, and claim what is to be started.

        None if another process is at it, or the schedule is deleted.
        """

        async def take(tx: Transaction, locked: Schedule, now: datetime) -> None:
            await wake(tx, locked, now)
            is_due = locked.next_at is not None and locked.next_at <= now
            if is_due or self._is_ahead(locked, now):
                await take_due_times(tx, locked, now)

        return await self._decide(schedule, take, skip_locked=True)

    def is_accepting(self) -> bool:
        """Whether this process accepts runs; otherwise it leaves them to others."""
        return self._runs.is_accepting()

    async def start(self, claimed: Claim) -> None:
        """Start the run of a claimed due time and record the outcome; a cancellation does not interrupt it.

        Raises `Unavailable` if the outcome cannot be recorded: then it is repeated when the claim expires.
        """
        await run_to_completion(self._start(claimed))

    async def _decide(
        self,
        schedule: UUID,
        decide: Callable[[Transaction, Schedule, datetime], Awaitable[None]],
        *,
        skip_locked: bool = False,
    ) -> list[Claim] | None:
        """Decide with the schedule locked, and claim what is to be started; None if there is no schedule."""
        now = await self.read_time()
        async with self._database.transaction() as tx:
            if (locked := await lock_schedule(tx, schedule, skip_locked=skip_locked)) is None:
                return None
            await decide(tx, locked, now)
            return await claim(tx, locked, now, config=self.config)

    async def _start_all(self, claims: Sequence[Claim]) -> None:
        for each in claims:
            await self.start(each)

    async def _unused(self, tx: Transaction, schedule: UUID, moment: datetime) -> datetime:
        """The first moment that is no due time of the schedule yet."""
        while await find_due(tx, schedule, moment) is not None:
            moment += timedelta(microseconds=1)
        return moment

    async def _start(self, claimed: Claim) -> None:
        with structlog.contextvars.bound_contextvars(schedule_id=claimed.schedule.schedule_id):
            try:
                has_run = await self._has_run(claimed)
            except AppError as error:
                await self._record_refusal(claimed, error)
            except Exception:
                log.exception("schedule.start_failed")
                await self._record_refusal(claimed, AppError())
            else:
                await self._record(claimed, has_run=has_run)

    async def _has_run(self, claimed: Claim) -> bool:
        """Start the run unless it is too late; returns whether there is one."""
        is_started = claimed.attempt > 1 and await self._runs.exists(claimed.key)
        if not is_started and (claimed.is_over or not await self._start_run(claimed)):
            return False
        for earlier in claimed.to_cancel:
            with suppress(RunNotFound):
                await self._commands.stop(RunKey(claimed.schedule.account_id, earlier), "cancel")
        return True

    async def _start_run(self, claimed: Claim) -> bool:
        """Start or join the run; False if the schedule is deleted."""
        schedule = claimed.schedule

        async def read() -> str | None:
            async with self._database.read() as reader:
                return await stored_request(reader, schedule.id)

        request_id = f"schedule:{schedule.schedule_id}"
        deployment_id = None if schedule.deployment is None else schedule.schedule_id
        order = StoredOrder(
            *(claimed.key, schedule.api_key_id, request_id, schedule.bytes, read), deployment_id=deployment_id
        )
        return await self._runs.start(order)

    async def _record(self, claimed: Claim, *, has_run: bool) -> None:
        due = claimed.due
        async with self._database.transaction() as tx:
            if (schedule := await lock_schedule(tx, claimed.schedule.id)) is None:
                return
            if has_run:
                await record_started(tx, due)
                if schedule.refusals:
                    await update_schedule(tx, schedule.id, {"refusals": 0})
            else:
                values = {"outcome": "missed" if due.error is None else "refused"}
                await update_open(tx, due, values, attempt=claimed.attempt)

    async def _record_refusal(self, claimed: Claim, error: AppError) -> None:
        # Whether such an attempt has started the run after all is not known: the next one finds out.
        is_temporary = isinstance(error, Unavailable | TooMany)
        if not is_temporary and await self._runs.exists(claimed.key):
            # What failed came after the start.
            await self._record(claimed, has_run=True)
            return
        now = await self.read_time()
        values: dict[str, object] = {"error": error.code}
        values |= {"next_attempt_at": now + self._pause(claimed)} if is_temporary else {"outcome": "refused"}
        async with self._database.transaction() as tx:
            if (schedule := await lock_schedule(tx, claimed.schedule.id)) is None:
                return
            # Another process may have taken it up meanwhile: then that one decides.
            is_recorded = await update_open(tx, claimed.due, values, attempt=claimed.attempt)
            if not is_recorded or is_temporary:
                return
            reason = await self._count_refusal(tx, schedule, error, claimed.due.trigger)
            if reason is not None:
                await pause_schedule(tx, schedule.id, reason, now=now)
        log.warning("schedule.run_refused", code=error.code, due_at=claimed.due.due_at)
        if reason is not None:
            log.warning("schedule.paused", reason=reason)

    async def _count_refusal(
        self, tx: Transaction, schedule: Schedule, error: AppError, trigger: Trigger
    ) -> PausedReason | None:
        """Count a refusal; returns why the schedule has to be paused, if it has."""
        if schedule.paused:
            return None
        if isinstance(error, Unauthenticated):
            return "key_revoked"
        if trigger == "request" or isinstance(error, AccountSuspended):
            return None
        await update_schedule(tx, schedule.id, {"refusals": schedule.refusals + 1})
        return "failing" if schedule.refusals + 1 >= self.config.max_refusals else None

    def _pause(self, claimed: Claim) -> timedelta:
        # The exponent is bounded: a larger power would overflow.
        factor: int = 2 ** min(claimed.attempt - 1, 10)
        return min(_FIRST_PAUSE * factor, self.config.longest_pause)

    def _is_ahead(self, schedule: Schedule, now: datetime) -> bool:
        """Whether its next due time was computed before the database's clock went back."""
        return schedule.aligned_at > now + self.config.clock_tolerance
