"""ScheduleService: an account's schedules and their history."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from app.errors import Conflict, NotFound, Unauthenticated
from app.ids import AccountId, ApiKeyId, new_uuid
from app.platform.concurrency.fair_semaphore import FairSemaphore
from app.platform.db import Database, Transaction
from app.platform.pagination import PageRequest
from app.platform.postgres.statements import serialize
from app.platform.storage.service import StorageQuota
from app.requests.principal import Principal
from app.requests.run_request import GraphRunRequest
from app.runs.service import run_of_key
from app.schedules import records, repository
from app.schedules.firing.agenda import take_due_times
from app.schedules.firing.service import ScheduleFiring
from app.schedules.requests import ScheduledRequests


class ScheduleNotFound(NotFound):
    """This account has no schedule with this id."""

    code = "schedule_not_found"


class ScheduleIdTaken(Conflict):
    """There already is a schedule with this id or Idempotency-Key, created by a different request."""

    code = "schedule_id_taken"


class TooManySchedules(Conflict):
    """This account has the maximum number of schedules; delete one first."""

    code = "too_many_schedules"


class ScheduleOfDeployment(Conflict):
    """This schedule is a deployment: change its times and request at /managed-agents/v1/deployments."""

    code = "schedule_of_deployment"


class DeploymentArchived(Conflict):
    """This deployment is archived: it cannot be changed or run any more, only deleted as a schedule."""

    code = "deployment_archived"


@dataclass(frozen=True, slots=True)
class ScheduleOrder:
    """A request to create a schedule."""

    schedule_id: str | None
    terms: records.ScheduleTerms
    request: GraphRunRequest
    paused: bool
    deployment: records.Deployment | None = None
    fingerprint: bytes | None = None
    """Equal for requests that create the same one; None: that of what is ordered."""


ChangeTerms = Callable[[records.ScheduleTerms], records.ScheduleTerms]


@dataclass(frozen=True, slots=True)
class ScheduleService:
    """Creates, lists and changes schedules, of one account at a time.

    Schedules of other keys are treated as their runs are: reading or changing them needs `runs:read`.
    """

    database: Database
    firing: ScheduleFiring
    requests: ScheduledRequests
    storage: StorageQuota
    find_principal: Callable[[ApiKeyId], Awaitable[Principal]]
    """This and `require_active_key` raise `Unauthenticated` for a revoked key."""
    require_active_key: Callable[[Transaction, ApiKeyId], Awaitable[None]]
    max_per_account: int
    # Their requests may be large: more at once would leave the database no time for anything else.
    _stores: FairSemaphore = field(default_factory=lambda: FairSemaphore(2), init=False)

    async def create(self, caller: Principal, order: ScheduleOrder) -> records.Schedule:
        """Create a schedule, or return the one that the same request has created.

        Raises `ScheduleIdTaken`, `ScopeMissing` if that would show what other keys created,
        `TooManySchedules`, `StorageFull`, `GraphNotFound`, and `Invalid` naming the field.
        """
        creation_hash = order.fingerprint or await self.requests.fingerprint(
            order.terms, order.request, paused=order.paused
        )
        schedule_id = order.schedule_id or str(new_uuid())
        if order.schedule_id is not None:
            existing = await self._find(caller, schedule_id)
            if existing is not None:
                return _joined(existing, creation_hash, caller)
        now = await self.firing.read_time()
        order.terms.timing.check(now)
        request = await self.requests.prepare(caller, order.request)
        new = records.NewSchedule(
            id=new_uuid(),
            account_id=caller.account_id,
            schedule_id=schedule_id,
            api_key_id=caller.api_key_id,
            terms=order.terms,
            request=request,
            creation_hash=creation_hash,
            paused=order.paused,
            next_at=None if order.paused else order.terms.timing.next_after(now),
            deployment=order.deployment,
        )
        async with self._stores.slot(str(caller.account_id)):
            created = await self._insert(new, now)
        if created is not None:
            return created
        return _joined(await self.get(caller, schedule_id), creation_hash, caller)

    async def list_schedules(
        self, caller: Principal, page: PageRequest
    ) -> tuple[list[records.Schedule], str | None]:
        """A page of the account's schedules, newest first, and the cursor of the next page."""
        async with self.database.read() as reader:
            found = await repository.newest_schedules(reader, caller.account_id, page)
        return page.cut(found, lambda schedule: (schedule.created_at, schedule.schedule_id))

    async def requests_for(self, account_id: AccountId, end_user: str) -> list[str]:
        """The requests of the schedules whose runs are for an end user, as JSON."""
        async with self.database.read() as reader:
            return await repository.requests_for(reader, account_id, end_user)

    async def delete_for(self, tx: Transaction, account_id: AccountId, end_user: str) -> None:
        """Delete the schedules whose runs are for an end user, with their history."""
        await repository.delete_schedules_for(tx, account_id, end_user)

    async def get(self, caller: Principal, schedule_id: str) -> records.Schedule:
        """One schedule; raises `ScheduleNotFound`."""
        if (schedule := await self._find(caller, schedule_id)) is None:
            raise ScheduleNotFound
        return schedule

    async def history(
        self, caller: Principal, schedule_id: str, page: PageRequest
    ) -> tuple[list[records.ScheduledRun], str | None]:
        """Its due times, newest first, and the cursor of the next page; raises `ScheduleNotFound`."""
        schedule = await self.get(caller, schedule_id)
        async with self.database.read() as reader:
            found = await repository.due_times(reader, schedule.id, page)
        return page.cut(found, lambda due: (due.due_at, due.run_id))

    async def change(
        self,
        caller: Principal,
        schedule_id: str,
        change: ChangeTerms,
        *,
        request: GraphRunRequest | None = None,
        deployment: Callable[[records.Deployment], records.Deployment] | None = None,
    ) -> records.Schedule:
        """Change a schedule; `change` gets its current terms. What has become due by now stays due.

        `deployment` changes what a deployment has besides. Raises `ScheduleNotFound`, `ScopeMissing`,
        `StorageFull`, `GraphNotFound`, `DeploymentArchived`, `ScheduleOfDeployment`, and `Invalid` naming the
        field.
        """
        stored = None
        if request is not None:
            schedule = await self.get(caller, schedule_id)
            caller.require_reading(schedule.api_key_id)
            owner = await self._owner(schedule, caller)
            stored = await self.requests.prepare(owner, request, caller=caller)
        async with self._stores.slot(str(caller.account_id)):
            now = await self.firing.read_time()
            async with self.database.transaction() as tx:
                schedule = _live(await _lock(tx, caller, schedule_id))
                terms = change(schedule.terms)
                is_other = stored is not None or terms.timing != schedule.terms.timing
                if schedule.deployment is not None and deployment is None and is_other:
                    raise ScheduleOfDeployment
                if stored is not None:
                    await self.storage.require_room(tx, caller.account_id, _growth(schedule, stored))
                changed: dict[str, Any] = repository.columns_of(terms)
                if schedule.deployment is not None and deployment is not None:
                    changed["deployment"] = deployment(schedule.deployment).stored()
                if terms.timing != schedule.terms.timing:
                    terms.timing.check(now)
                    if schedule.next_at is not None and schedule.next_at <= now:
                        await take_due_times(tx, schedule, now)
                    next_at = None if schedule.paused else terms.timing.next_after(now)
                    changed |= {"next_at": next_at, "aligned_at": now}
                return await repository.update_schedule(tx, schedule.id, changed, request=stored)

    async def pause(self, caller: Principal, schedule_id: str) -> records.Schedule:
        """Start no run at its due times; one that is paused already stays as it is.

        Raises `ScheduleNotFound`, `ScopeMissing`.
        """
        now = await self.firing.read_time()
        async with self.database.transaction() as tx:
            schedule = await _lock(tx, caller, schedule_id)
            if schedule.paused:
                return schedule
            return await repository.pause_schedule(tx, schedule.id, "by_request", now=now)

    async def resume(self, caller: Principal, schedule_id: str) -> records.Schedule:
        """Go on with the next due time; one that is not paused stays as it is.

        If the key of the schedule was revoked, it is that of the caller from now on. Raises
        `ScheduleNotFound`, `ScopeMissing`, `DeploymentArchived`.
        """
        schedule = await self.get(caller, schedule_id)
        caller.require_reading(schedule.api_key_id)
        await self._require_startable(schedule, caller)
        owner = await self._owner(schedule, caller)
        now = await self.firing.read_time()
        async with self.database.transaction() as tx:
            await self.require_active_key(tx, owner.api_key_id)
            schedule = _live(await _lock(tx, caller, schedule_id))
            if not schedule.paused:
                return schedule
            values = {
                "api_key_id": owner.api_key_id,
                "paused_reason": None,
                "paused_at": None,
                "refusals": 0,
                "next_at": schedule.terms.timing.next_after(now),
                "aligned_at": now,
            }
            return await repository.update_schedule(tx, schedule.id, values)

    async def trigger(
        self, caller: Principal, schedule_id: str, key: str | None = None
    ) -> records.ScheduledRun:
        """Start a run now, as if the schedule were due, also if it is paused; with an idempotency key once.

        Raises `ScheduleNotFound`, `ScopeMissing`, `DeploymentArchived`.
        """
        schedule = _live(await self.get(caller, schedule_id))
        caller.require_reading(schedule.api_key_id)
        await self._require_startable(schedule, caller)
        run_id = None if key is None else run_of_key(caller, f"{schedule.id}/{key}")
        due = await self.firing.fire_now(schedule.id, run_id)
        if due is None:
            raise ScheduleNotFound
        return due

    async def archive(self, caller: Principal, schedule_id: str) -> records.Schedule:
        """Pause a deployment for good; one that is archived stays as it is. Raises as `pause` does."""
        now = await self.firing.read_time()
        async with self.database.transaction() as tx:
            schedule = await _lock(tx, caller, schedule_id)
            if schedule.deployment is None or schedule.archived_at is not None:
                return schedule
            if not schedule.paused:
                await repository.pause_schedule(tx, schedule.id, "by_request", now=now)
            archived = schedule.deployment.model_copy(update={"archived_at": now, "updated_at": now})
            return await repository.update_schedule(tx, schedule.id, {"deployment": archived.stored()})

    async def delete(self, caller: Principal, schedule_id: str) -> None:
        """Delete a schedule and its history; its runs stay. Raises `ScheduleNotFound`, `ScopeMissing`."""
        async with self.database.transaction() as tx:
            schedule = await _lock(tx, caller, schedule_id)
            await repository.delete_schedule(tx, schedule.id)

    async def _insert(self, new: records.NewSchedule, now: datetime) -> records.Schedule | None:
        """Store a schedule; None if its id was taken meanwhile."""
        async with self.database.transaction() as tx:
            await self.require_active_key(tx, new.api_key_id)
            await serialize(tx, "schedules", new.account_id)
            if await repository.find_schedule(tx, new.account_id, new.schedule_id) is not None:
                return None
            if await repository.count_schedules(tx, new.account_id) >= self.max_per_account:
                raise TooManySchedules
            await self.storage.require_room(tx, new.account_id, len(new.request.text))
            return await repository.insert_schedule(tx, new, now=now)

    async def _find(self, caller: Principal, schedule_id: str) -> records.Schedule | None:
        async with self.database.read() as reader:
            return await repository.find_schedule(reader, caller.account_id, schedule_id)

    async def _require_startable(self, schedule: records.Schedule, caller: Principal) -> None:
        """Raise unless a caller whose graphs or models are restricted could start its run."""
        is_restricted = caller.terms.graphs is not None or caller.terms.models is not None
        if not is_restricted or schedule.api_key_id == caller.api_key_id:
            return
        async with self.database.read() as reader:
            text = await repository.stored_request(reader, schedule.id)
        if text is None:
            raise ScheduleNotFound
        await self.requests.check(caller, text)

    async def _owner(self, schedule: records.Schedule, caller: Principal) -> Principal:
        """The holder of the schedule's key, or the caller if that key is revoked."""
        try:
            return await self.find_principal(schedule.api_key_id)
        except Unauthenticated:
            return caller


async def _lock(tx: Transaction, caller: Principal, schedule_id: str) -> records.Schedule:
    schedule = await repository.lock_named(tx, caller.account_id, schedule_id)
    if schedule is None:
        raise ScheduleNotFound
    caller.require_reading(schedule.api_key_id)
    return schedule


def _live(schedule: records.Schedule) -> records.Schedule:
    """The schedule, unless it is archived."""
    if schedule.archived_at is not None:
        raise DeploymentArchived
    return schedule


def _joined(schedule: records.Schedule, creation_hash: bytes, caller: Principal) -> records.Schedule:
    # First, because whether the requests are equal reveals something about the existing one.
    caller.require_reading(schedule.api_key_id)
    if schedule.creation_hash != creation_hash:
        raise ScheduleIdTaken
    return schedule


def _growth(schedule: records.Schedule, stored: records.StoredRequest) -> int:
    return max(0, len(stored.text) - schedule.bytes)
