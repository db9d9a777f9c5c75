"""Faults planted in what lets Temporal fire schedules."""

from tests.mutants.mutant import Mutant

_MOMENTS = "app/schedules/firing/moments.py"
_TEMPORAL = "app/schedules/temporal/"
_TESTS = "tests/contracts/test_temporal_schedules.py::"

TEMPORAL_SCHEDULES = (
    Mutant(
        "what Temporal fires after a change of the schedule is a person's wish",
        _MOMENTS,
        "return self.revision == schedule.revision and not timing",
        "return not timing",
    ),
    Mutant(
        "a due time of Temporal's own at a change of clocks starts a run",
        _MOMENTS,
        "not timing.may_match_clock(self.moment)",
        "not timing.is_due(self.moment)",
    ),
    Mutant(
        "Temporal and cron mean the same by two days",
        "app/schedules/cron.py",
        "found = [] if parsed.day_and else [(days, _ALL_WEEKDAYS)]",
        "found = list[tuple[frozenset[int], frozenset[int]]]()",
        (_TESTS + "test_temporal_knows_the_times_of_every_expression",),
    ),
    Mutant(
        "a person's pause in Temporal is undone by a change",
        _TEMPORAL + "schedules.py",
        "if there is not None and there.paused and not is_own(there.note):",
        "if there is None:",
        (_TESTS + "test_what_a_person_wants_in_temporal_is_done",),
    ),
    Mutant(
        "a late mirror brings an earlier revision back",
        _TEMPORAL + "schedules.py",
        "if is_same or known > schedule.revision:",
        "if is_same:",
        (_TESTS + "test_an_earlier_revision_replaces_no_later_one",),
    ),
    Mutant(
        "a schedule is replaced without its token",
        _TEMPORAL + "schedules.py",
        "            conflict_token=token,\n",
        "",
        (_TESTS + "test_an_earlier_revision_replaces_no_later_one",),
    ),
    Mutant(
        "the servers start what a person has paused in Temporal",
        _TEMPORAL + "timer.py",
        'return "miss" if status == "paused" else "start"',
        'return "start"',
        (_TESTS + "test_what_temporal_does_not_notice_the_servers_do",),
    ),
    Mutant(
        "the servers do not wait for Temporal",
        _TEMPORAL + "timer.py",
        "else now - GRACE",
        "else now",
        (_TESTS + "test_what_temporal_does_not_notice_the_servers_do",),
    ),
    Mutant(
        "what could not be mirrored is not mirrored later",
        _TEMPORAL + "mirror.py",
        "await mark_unmirrored(tx, [schedule.id for schedule in failed])",
        "pass",
        (_TESTS + "test_a_temporal_that_is_killed_and_comes_back_gets_what_has_changed",),
    ),
    Mutant(
        "a pause is not mirrored",
        "migrations/versions/2026-11-23-1400_mirror_schedules.py",
        '"catch_up_s", "paused_reason")',
        '"catch_up_s")',
        (_TESTS + "test_temporal_shows_each_schedule_as_its_row_is",),
    ),
    Mutant(
        "a schedule without a row stays in Temporal",
        _TEMPORAL + "comparison.py",
        "await insert_deleted(tx, without_row)",
        "pass",
        (_TESTS + "test_temporal_is_compared_with_the_rows",),
    ),
    Mutant(
        "a process that is stopping decides what Temporal fires",
        _TEMPORAL + "activities.py",
        "if not await self.firing.is_accepting():",
        "if not await self.firing.is_accepting() and False:",
        (_TESTS + "test_a_moment_waits_for_the_clock_of_the_database_and_for_another_process",),
    ),
    Mutant(
        "a time is decided before the database's clock has reached it",
        _TEMPORAL + "activities.py",
        "if ahead > timedelta():",
        "if ahead > timedelta(days=9):",
        (_TESTS + "test_a_moment_waits_for_the_clock_of_the_database_and_for_another_process",),
    ),
)
