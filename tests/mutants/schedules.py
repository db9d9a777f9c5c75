"""Faults planted in what starts one run at each due time of a schedule."""

from tests.mutants.mutant import Mutant

FIRING = ("tests/integration/test_schedule_firing.py",)
OVERLAPS = ("tests/integration/test_schedule_overlaps.py",)
REFUSALS = ("tests/integration/test_schedule_refusals.py",)
RACES = ("tests/integration/test_schedule_races.py",)
HTTP = ("tests/integration/test_http_schedules.py",)

_CRON = "app/schedules/cron.py"
_OVERLAP = "app/schedules/overlap.py"
_AGENDA = "app/schedules/firing/agenda.py"
_FIRING = "app/schedules/firing/service.py"
_SQL = "app/schedules/firing/repository.py"
_SERVICE = "app/schedules/service.py"

SCHEDULES = (
    Mutant("a time that comes twice is due twice", _CRON, "if time > last:", "if time != last:"),
    Mutant("a schedule is due at its end", _CRON, "time < self.end_at", "time <= self.end_at"),
    Mutant(
        "a schedule is not due at its start", _CRON, "else self.start_at - _INSTANT", "else self.start_at"
    ),
    Mutant(
        "times before the first one count as missed",
        _CRON,
        "since = max(first - _INSTANT, time.astimezone(UTC) - _LONGEST_SHIFT)",
        "since = time.astimezone(UTC) - _LONGEST_SHIFT",
    ),
    Mutant(
        "a second due time waits",
        _OVERLAP,
        'return "skip" if occupancy.is_waiting else "wait"',
        'return "wait"',
    ),
    Mutant(
        "what is being started is cancelled",
        _OVERLAP,
        'return "wait" if occupancy.is_starting or occupancy.is_waiting else "start"',
        'return "start"',
    ),
    Mutant(
        "what is being started is no obstacle",
        _AGENDA,
        "decide(overlap, Occupancy(bool(starting), bool(running), bool(waiting)))",
        "decide(overlap, Occupancy(False, bool(running), bool(waiting)))",
        RACES,
    ),
    Mutant(
        "an older due time waits beside the newest",
        _AGENDA,
        'await update_open(tx, earlier, {"outcome": "skipped", "waits_for": None})',
        "pass",
        OVERLAPS,
    ),
    Mutant(
        "every missed time starts a run", _AGENDA, "if is_late else times[:-1]", "if is_late else []", FIRING
    ),
    Mutant(
        "no due time is too late",
        _AGENDA,
        "is_late = now > latest + _catch_up(schedule)",
        "is_late = False",
        OVERLAPS,
    ),
    Mutant(
        "a due time is claimed while another process starts its run",
        _AGENDA,
        "[due for due in starting if not now < due.next_attempt_at <= farthest_attempt(now, config)]",
        "starting",
        FIRING,
    ),
    Mutant(
        "a claim of before the clock went back is waited for",
        _AGENDA,
        "if not now < due.next_attempt_at <= farthest_attempt(now, config)]",
        "if not now < due.next_attempt_at]",
        FIRING,
    ),
    Mutant(
        "a run is started however late",
        _AGENDA,
        "is_over = now > due.start_by or ",
        "is_over = ",
        REFUSALS,
    ),
    Mutant(
        "a paused schedule starts what it has begun to start",
        _AGENDA,
        ' or (schedule.paused and due.trigger == "cron")',
        "",
        REFUSALS,
    ),
    Mutant(
        "the row of a schedule is not locked",
        "app/schedules/repository.py",
        "found = await tx.execute(statement.with_for_update(skip_locked=skip_locked))",
        "found = await tx.execute(statement)",
        RACES,
    ),
    Mutant(
        "a clock that goes back stops a schedule",
        _FIRING,
        "return schedule.aligned_at > now + self.config.clock_tolerance",
        "return False",
        FIRING,
    ),
    Mutant(
        "a schedule whose clock went back is not found",
        _SQL,
        "aligned_at > :farthest_alignment",
        "aligned_at > :farthest_alignment AND false",
        FIRING,
    ),
    Mutant(
        "a missed time is never due again",
        _SQL,
        'where=_due.outcome == "missed"',
        'where=_due.outcome == "never"',
        FIRING,
    ),
    Mutant(
        "a due time is started again",
        _SQL,
        'where=_due.outcome == "missed"',
        'where=_due.outcome != "waiting"',
        FIRING,
    ),
    Mutant(
        "a run that was started before does not count",
        _FIRING,
        "is_started = claimed.attempt > 1 and await self._exists(claimed.key)",
        "is_started = False",
        FIRING,
    ),
    Mutant(
        "a run that was started with another request does not count",
        _FIRING,
        "with suppress(RunIdTaken, RunDeleted):",
        "with suppress(RunDeleted):",
        FIRING,
    ),
    Mutant(
        "a refusal by an expired claim counts",
        _FIRING,
        "is_recorded = await update_open(tx, claimed.due, values, attempt=claimed.attempt)",
        "is_recorded = await update_open(tx, claimed.due, values)",
        REFUSALS,
    ),
    Mutant(
        "a full queue is a refusal for good",
        _FIRING,
        "isinstance(error, Unavailable | TooMany)",
        "isinstance(error, Unavailable)",
        REFUSALS,
    ),
    Mutant(
        "a revoked key does not pause its schedule",
        _FIRING,
        'return "key_revoked"',
        "return None",
        REFUSALS,
    ),
    Mutant(
        "refusals are counted for ever",
        _FIRING,
        "if schedule.refusals:",
        "if schedule.refusals < 0:",
        REFUSALS,
    ),
    Mutant(
        "a key needs no scope when its schedule is due",
        _FIRING,
        'owner.require("runs:write")',
        "pass",
        REFUSALS,
    ),
    Mutant(
        "a server that is stopping claims due times",
        _FIRING,
        "        except Unavailable:\n            return False\n",
        "        except Unavailable:\n            return True\n",
        FIRING,
    ),
    Mutant(
        "large requests are read whatever memory there is",
        _FIRING,
        "if schedule.bytes > _LARGE_BYTES:",
        "if schedule.bytes < 0:",
        REFUSALS,
    ),
    Mutant(
        "an error after the start is a refusal",
        _FIRING,
        "if not is_temporary and await self._exists(claimed.key):",
        "if False:",
        OVERLAPS,
    ),
    Mutant(
        "earlier runs are not cancelled",
        _FIRING,
        'await self._commands.stop(RunKey(claimed.schedule.account_id, earlier), "cancel")',
        "pass",
        OVERLAPS,
    ),
    Mutant(
        "what waits is started after a pause",
        "app/schedules/repository.py",
        'await tx.execute(update(schedule_runs).where(is_waiting).values(outcome="missed"))',
        "",
        OVERLAPS,
    ),
    Mutant(
        "any key of an account changes the schedules of the others",
        _SERVICE,
        "    caller.require_reading(schedule.api_key_id)\n    return schedule\n",
        "    return schedule\n",
        HTTP,
    ),
    Mutant("one schedule too many", _SERVICE, ">= self._max_per_account", "> self._max_per_account", HTTP),
    Mutant(
        "the limit of schedules is counted without a lock",
        _SERVICE,
        "await lock_account(tx, new.account_id)",
        "pass",
        RACES,
    ),
    Mutant(
        "what is due is lost when the times are changed",
        _SERVICE,
        "await take_due_times(tx, schedule, now)",
        "pass",
        FIRING,
    ),
    Mutant(
        "requests of schedules have no quota",
        _SERVICE,
        "await self._storage.require_room(tx, new.account_id, len(new.request.text))",
        "pass",
        HTTP,
    ),
)
