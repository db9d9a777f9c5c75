from typing import get_args

from app.events import RunError
from app.requests.outcome import ErrorCode
from app.runs.events.failures import failure_of


def test_every_code_of_a_failed_run_is_that_of_its_error() -> None:
    for code in get_args(ErrorCode):
        assert failure_of(RunError(error=code)).code == code


def test_the_budget_of_a_failed_run_is_named_as_to_one_that_is_refused() -> None:
    resets_at = "2026-11-30T00:00:00Z"
    ended = failure_of(RunError(error="budget_reached", budget="team", resets_at=resets_at), run_id="r")
    for_good = failure_of(RunError(error="budget_reached", budget="team"))

    assert ended.detail == f"The budget team is used up until {resets_at}."
    assert (ended.members, ended.run_id) == ({"budget": "team", "resets_at": resets_at}, "r")
    assert for_good.detail == "The budget team is used up."
