from typing import get_args

from app.requests.outcome import ErrorCode
from app.runs.generate import FAILURES


def test_every_way_a_run_fails_is_a_problem_of_the_same_code() -> None:
    assert set(FAILURES) == set(get_args(ErrorCode))
    assert {code: failure.code for code, failure in FAILURES.items()} == {code: code for code in FAILURES}
