"""What is to do for a schedule at a moment; decided in a transaction that has locked its row.

All due times of a schedule are decided one after the other; each decision takes the earlier ones into
account.
"""

from datetime import datetime, timedelta
from typing import Any

import structlog

from app.ids import RunId
from app.platform.db import Transaction
from app.schedules.firing import repository
from app.schedules.overlap import Occupancy, decide, may_start
from app.schedules.records import Claim, FiringConfig, Schedule, ScheduledRun, Trigger
from app.schedules.repository import update_schedule

log = structlog.get_logger(__name__)

MISSED_AT_ONCE = 100
"""Of an outage the history has only the latest missed times; all would replace what was before it."""


async def take_due_times(tx: Transaction, schedule: Schedule, now: datetime) -> None:
    """Add the times at which the schedule has been due since, and compute the next one.

    Of several only the latest may get a run, so that an outage, or a clock that jumps forward, starts one.
    """
    timing = schedule.terms.timing
    if schedule.next_at is None:
        return
    changed: dict[str, Any] = {"next_at": timing.next_after(now), "aligned_at": now}
    # None, if the time zone has changed its rules since.
    if times := timing.latest(schedule.next_at, now, most=MISSED_AT_ONCE):
        latest = times[-1]
        is_late = now > latest + _catch_up(schedule)
        await _miss(tx, schedule, times if is_late else times[:-1])
        if not is_late:
            await add_due_time(tx, schedule, latest, now=now)
        changed["last_at"] = latest
    await update_schedule(tx, schedule.id, changed)


async def add_due_time(
    tx: Transaction,
    schedule: Schedule,
    due_at: datetime,
    *,
    now: datetime,
    trigger: Trigger = "cron",
    run_id: RunId | None = None,
) -> None:
    """Decide what happens to a due time; without effect if that was decided before.

    `run_id`: that of its run, if the time does not decide it.
    """
    overlap = schedule.terms.overlap
    starting, waiting = await _open(tx, schedule)
    running = [] if overlap == "allow" else await repository.unfinished_runs(tx, schedule)
    decision = decide(overlap, Occupancy(bool(starting), bool(running), bool(waiting)))
    values = {
        "outcome": {"start": "starting", "wait": "waiting", "skip": "skipped"}[decision],
        "start_by": (due_at if trigger == "cron" else now) + _catch_up(schedule),
        "next_attempt_at": now,
        "waits_for": _last(starting, running) if decision == "wait" else None,
    }
    if run_id is not None:
        values["run_id"] = run_id
    if await repository.insert_due(tx, schedule.id, due_at, trigger=trigger, values=values) is None:
        return
    if decision == "wait":
        for earlier in waiting:
            # Only where the newest replaces all others.
            await repository.update_open(tx, earlier, {"outcome": "skipped", "waits_for": None})
    await repository.prune_history(tx, schedule.id)


async def wake(tx: Transaction, schedule: Schedule, now: datetime) -> None:
    """Let a due time that waits be started if nothing is in its way any more."""
    starting, waiting = await _open(tx, schedule)
    running = await repository.unfinished_runs(tx, schedule) if waiting else []
    for due in waiting:
        if may_start(schedule.terms.overlap, Occupancy(bool(starting), bool(running), is_waiting=False)):
            values = {"outcome": "starting", "next_attempt_at": now, "start_by": now + _catch_up(schedule)}
            await repository.update_open(tx, due, {**values, "waits_for": None})
        else:
            await repository.update_open(tx, due, {"waits_for": _last(starting, running)})


async def claim(tx: Transaction, schedule: Schedule, now: datetime, *, config: FiringConfig) -> list[Claim]:
    """Claim the due times of which no process starts the run."""
    starting, _ = await _open(tx, schedule)
    free = [due for due in starting if not now < due.next_attempt_at <= farthest_attempt(now, config)]
    replaces = schedule.terms.overlap == "cancel"
    running = tuple(await repository.unfinished_runs(tx, schedule)) if free and replaces else ()
    claims = []
    for due in free:
        values = {"attempts": due.attempts + 1, "next_attempt_at": now + config.lease}
        await repository.update_open(tx, due, values)
        is_over = now > due.start_by or (schedule.paused and due.trigger == "cron")
        claims.append(Claim(schedule, due, due.attempts + 1, running, is_over=is_over))
    return claims


def farthest_attempt(now: datetime, config: FiringConfig) -> datetime:
    """The latest time at which an attempt can be due that was stored by this clock."""
    return now + max(config.lease, config.longest_pause) + config.clock_tolerance


async def _open(tx: Transaction, schedule: Schedule) -> tuple[list[ScheduledRun], list[ScheduledRun]]:
    """The due times that are being started, and those that wait."""
    due_times = await repository.open_due_times(tx, schedule.id)
    starting = [due for due in due_times if due.outcome == "starting"]
    return starting, [due for due in due_times if due.outcome == "waiting"]


async def _miss(tx: Transaction, schedule: Schedule, times: list[datetime]) -> None:
    if times:
        await repository.insert_missed(tx, schedule.id, times)
        await repository.prune_history(tx, schedule.id)
        log.warning("schedule.missed", schedule_id=schedule.schedule_id, due_times=len(times))


def _last(starting: list[ScheduledRun], running: list[RunId]) -> RunId | None:
    """A run that has to end first."""
    return next(iter([*(due.run_id for due in starting), *reversed(running)]), None)


def _catch_up(schedule: Schedule) -> timedelta:
    return timedelta(seconds=schedule.terms.catch_up_s)
