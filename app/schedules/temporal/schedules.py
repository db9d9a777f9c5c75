"""TemporalSchedules: the schedules in Temporal that belong to the rows of one database."""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from temporalio.api.workflowservice.v1 import UpdateScheduleRequest
from temporalio.client import (
    Client,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleCalendarSpec,
    ScheduleDescription,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleRange,
    ScheduleSpec,
    ScheduleState,
)
from temporalio.client import Schedule as TemporalSchedule
from temporalio.service import RPCError, RPCStatusCode

from app.platform.temporal.connection import RPC_TIMEOUT, TemporalConnection, TemporalUnavailable
from app.schedules.cron import Timing
from app.schedules.records import Schedule
from app.schedules.temporal.records import ShownSchedule, is_own, note_of
from app.schedules.temporal.workflows import ScheduleReference, ScheduleWorkflow

_TASK_TIMEOUT = timedelta(seconds=5)
"""After it another process decides what the workflow does next: one may have got the task and stand still."""

_CATCH_UP = timedelta(minutes=1)
"""After an outage of Temporal the rows know better what was due, and whether it still is."""

_TRIES = 5
"""A try fails when another process, or a person, changes the schedule at the same moment."""


class ScheduleRefused(Exception):
    """Temporal does not accept the times of a schedule."""


@dataclass(frozen=True, slots=True)
class TemporalSchedules:
    """Never more than one for a row. All calls raise `TemporalUnavailable`."""

    temporal: TemporalConnection
    task_queue: str
    """Of the runs; part of the ids, because several databases may use one namespace."""

    @property
    def firing_queue(self) -> str:
        """The task queue of what they start."""
        return f"{self.task_queue}-schedules"

    def id_of(self, schedule: UUID) -> str:
        """The id in Temporal."""
        return f"{self._prefix}{schedule}"

    async def put(self, schedule: Schedule) -> None:
        """Make the schedule in Temporal what its row is, unless that has a later revision of it.

        Without effect on a pause by a person there. Raises `ScheduleRefused`.
        """
        for _ in range(_TRIES):
            there = await self._describe(schedule.id)
            if there is None:
                if await self._create(schedule):
                    return
                continue
            known, state = await self._revision_of(there), _state_of(schedule, there.schedule.state)
            is_same = known == schedule.revision and _is_equal(there.schedule.state, state)
            if is_same or known > schedule.revision:
                return
            await self._replace(schedule, state, there.raw_description.conflict_token)
        message = "a schedule in Temporal is changed too often"
        raise TemporalUnavailable(message)

    async def delete(self, schedule: UUID) -> None:
        """Delete it in Temporal, if it is there."""
        try:
            await self._client.get_schedule_handle(self.id_of(schedule)).delete(rpc_timeout=RPC_TIMEOUT)
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise self.temporal.failed(error) from error

    async def status(self, schedule: UUID) -> Literal["active", "paused", "missing"]:
        """What it is in Temporal; `paused` only by a person there."""
        if (there := await self._describe(schedule)) is None:
            return "missing"
        state = there.schedule.state
        return "paused" if state.paused and not is_own(state.note) else "active"

    async def list_all(self) -> dict[UUID, ShownSchedule]:
        """All of them; what was changed a moment ago may be missing."""
        quoted = self._prefix.replace("\\", "\\\\").replace('"', '\\"')
        found = {}
        try:
            listed = await self._client.list_schedules(
                f'ScheduleId STARTS_WITH "{quoted}"', rpc_timeout=RPC_TIMEOUT
            )
            async for each in listed:
                schedule = self._row_of(each.id)
                if schedule is not None and each.schedule is not None:
                    state = each.schedule.state
                    found[schedule] = ShownSchedule(note=state.note or "", paused=state.paused)
        except RPCError as error:
            raise self.temporal.failed(error) from error
        return found

    @property
    def _client(self) -> Client:
        return self.temporal.client

    @property
    def _prefix(self) -> str:
        return f"schedule/{self.task_queue}/"

    def _row_of(self, id_: str) -> UUID | None:
        try:
            schedule = UUID(id_.removeprefix(self._prefix))
        except ValueError:
            return None
        return schedule if id_ == self.id_of(schedule) else None

    async def _describe(self, schedule: UUID) -> ScheduleDescription | None:
        handle = self._client.get_schedule_handle(self.id_of(schedule))
        try:
            return await handle.describe(rpc_timeout=RPC_TIMEOUT)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return None
            raise self.temporal.failed(error) from error

    async def _create(self, schedule: Schedule) -> bool:
        """Create it; False if another process has, a moment ago."""
        wanted = self._wanted(schedule, _state_of(schedule, None))
        memo = {"account": str(schedule.account_id), "scheduleId": schedule.schedule_id}
        try:
            await self._client.create_schedule(
                self.id_of(schedule.id), wanted, memo=memo, rpc_timeout=RPC_TIMEOUT
            )
        except ScheduleAlreadyRunningError:
            return False
        except RPCError as error:
            raise self._failure(error) from error
        return True

    async def _replace(self, schedule: Schedule, state: ScheduleState, token: bytes) -> None:
        """Replace what has this token; without effect if it was changed since."""
        wanted = self._wanted(schedule, state)
        request = UpdateScheduleRequest(
            namespace=self._client.namespace,
            schedule_id=self.id_of(schedule.id),
            schedule=await wanted._to_proto(self._client),  # noqa: SLF001 - its own update passes no token
            conflict_token=token,
            identity=self._client.identity,
            request_id=str(uuid.uuid4()),
        )
        try:
            await self._client.workflow_service.update_schedule(request, retry=True, timeout=RPC_TIMEOUT)
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise self._failure(error) from error

    def _failure(self, error: RPCError) -> TemporalUnavailable | ScheduleRefused:
        if error.status == RPCStatusCode.INVALID_ARGUMENT:
            return ScheduleRefused()
        return self.temporal.failed(error)

    async def _revision_of(self, there: ScheduleDescription) -> int:
        """The revision of the row that it was made from; 0 if a person has changed what it starts."""
        action = there.schedule.action
        if not isinstance(action, ScheduleActionStartWorkflow):
            return 0
        try:
            (found,) = await self._client.data_converter.decode(action.args, [ScheduleReference])
        except (RuntimeError, TypeError, ValueError):
            return 0
        return int(found.revision)

    def _wanted(self, schedule: Schedule, state: ScheduleState) -> TemporalSchedule:
        return TemporalSchedule(
            action=ScheduleActionStartWorkflow(
                ScheduleWorkflow.run,
                ScheduleReference(str(schedule.id), str(schedule.account_id), schedule.revision),
                id=self.id_of(schedule.id),
                task_queue=self.firing_queue,
                task_timeout=_TASK_TIMEOUT,
                # While no worker is there, they do not pile up.
                execution_timeout=timedelta(seconds=schedule.terms.catch_up_s),
            ),
            spec=_spec_of(schedule.terms.timing),
            policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.ALLOW_ALL, catchup_window=_CATCH_UP),
            state=state,
        )


def _state_of(schedule: Schedule, there: ScheduleState | None) -> ScheduleState:
    """Its state in Temporal: that of the row, except for a pause by a person there."""
    if there is not None and there.paused and not is_own(there.note):
        return ScheduleState(note=there.note, paused=True)
    return ScheduleState(note=note_of(schedule.revision, schedule.paused_reason), paused=schedule.paused)


def _is_equal(one: ScheduleState, other: ScheduleState) -> bool:
    return (one.note, one.paused) == (other.note, other.paused)


def _spec_of(timing: Timing) -> ScheduleSpec:
    """Its times as sets of minutes, hours and so on: Temporal reads some expressions otherwise."""
    calendars = [
        ScheduleCalendarSpec(
            second=[ScheduleRange(0)],
            minute=_ranges(each.minutes),
            hour=_ranges(each.hours),
            day_of_month=_ranges(each.days),
            month=_ranges(each.months),
            day_of_week=_ranges(each.weekdays),
            comment=timing.cron,
        )
        for each in timing.calendars()
    ]
    return ScheduleSpec(
        calendars=calendars,
        start_at=timing.start_at,
        end_at=_last_of(timing.end_at),
        time_zone_name=timing.time_zone,
    )


def _last_of(end_at: datetime | None) -> datetime | None:
    # In Temporal a schedule is due at its end, too.
    return None if end_at is None else end_at - timedelta(microseconds=1)


def _ranges(values: frozenset[int]) -> list[ScheduleRange]:
    """The same as ranges."""
    found: list[ScheduleRange] = []
    for value in sorted(values):
        if found and found[-1].end == value - 1:
            found[-1] = ScheduleRange(found[-1].start, value)
        else:
            found.append(ScheduleRange(value, value))
    return found
