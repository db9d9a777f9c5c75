"""Which moments that another timer notices are wanted by a person."""

from datetime import UTC, datetime, timedelta

import pytest

from app.ids import AccountId, ApiKeyId, new_uuid
from app.schedules.cron import Timing
from app.schedules.firing.moments import LATEST, Firing
from app.schedules.records import PausedReason, RequestSummary, Schedule, ScheduleTerms

MONDAY = datetime(2027, 3, 1, 9, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
AT_NINE = Timing("0 9 * * MON")
IN_THE_NIGHT = Timing("30 2 * * *", "Europe/Berlin")
FIRST, AGAIN = (datetime(2027, 10, 31, hour, 30, tzinfo=UTC) for hour in (0, 1))
"""Clocks in Berlin show 2:30 twice; the first time it is due, the second time Temporal fires."""
AT_ONE = Timing("52 1 * * *", "Europe/Berlin")
TOO_LATE = datetime(2027, 10, 31, 0, 52, tzinfo=UTC)
"""Clocks show 2:52, an hour after its due time: Temporal fires once more, because they are changed then."""


def a_schedule(timing: Timing, paused_reason: PausedReason | None = None) -> Schedule:
    return Schedule(
        id=new_uuid(),
        account_id=AccountId(new_uuid()),
        schedule_id="s",
        api_key_id=ApiKeyId(new_uuid()),
        terms=ScheduleTerms(timing, "skip", 3600),
        summary=RequestSummary("g", None, None, "?"),
        creation_hash=b"",
        paused_reason=paused_reason,
        paused_at=None,
        next_at=None,
        aligned_at=MONDAY,
        last_at=None,
        refusals=0,
        bytes=1,
        created_at=MONDAY,
        revision=2,
    )


@pytest.mark.parametrize(
    ("timing", "revision", "moment", "late", "is_manual"),
    [
        pytest.param(AT_NINE, 2, MONDAY, SECOND, False, id="a due time"),
        pytest.param(AT_NINE, 1, MONDAY, SECOND, False, id="a due time of earlier terms, too"),
        pytest.param(AT_NINE, 2, MONDAY, LATEST, False, id="a due time after an outage of Temporal"),
        pytest.param(AT_NINE, 2, MONDAY, LATEST + SECOND, True, id="a backfill"),
        pytest.param(AT_NINE, 1, MONDAY, 999 * LATEST, True, id="a backfill by earlier terms"),
        pytest.param(AT_NINE, 2, MONDAY + MINUTE, 999 * LATEST, False, id="a backfill that is no due time"),
        pytest.param(AT_NINE, 2, MONDAY + SECOND, SECOND, True, id="a trigger"),
        pytest.param(AT_NINE, 1, MONDAY + SECOND, SECOND, True, id="a trigger after a change"),
        pytest.param(AT_NINE, 2, MONDAY + MINUTE, SECOND, True, id="a trigger in a full minute"),
        pytest.param(AT_NINE, 1, MONDAY + MINUTE, SECOND, False, id="a due time of earlier terms"),
        pytest.param(IN_THE_NIGHT, 2, FIRST, SECOND, False, id="a due time at a change of clocks"),
        pytest.param(IN_THE_NIGHT, 2, AGAIN, SECOND, False, id="due in Temporal only"),
        pytest.param(AT_ONE, 2, TOO_LATE, SECOND, False, id="due in Temporal only, and at no such hour"),
    ],
)
def test_only_a_person_wants_a_run_at_other_than_due_times(
    timing: Timing, revision: int, moment: datetime, late: timedelta, *, is_manual: bool
) -> None:
    firing = Firing(revision, moment, fired_at=moment + late)

    for paused_reason in (None, "by_request"):
        assert firing.is_manual(a_schedule(timing, paused_reason)) is is_manual


def test_what_clocks_show_decides_except_while_they_are_changed() -> None:
    day = timedelta(days=1)

    assert [IN_THE_NIGHT.is_due(each) for each in (FIRST, AGAIN, AGAIN + day)] == [True, False, True]
    assert [AT_ONE.may_match_clock(TOO_LATE + days * day) for days in (-3, -1, 0, 1)] == [False, *[True] * 3]
    # At 1:52, and at 2:52.
    assert [AT_ONE.may_match_clock(TOO_LATE + 3 * day + hours * HOUR) for hours in (0, 1)] == [True, False]
