from typing import get_args

from app.requests.outcome import ErrorCode
from app.runs.generate import FAILURES, GenerationFailed


def test_every_way_a_run_fails_is_a_problem_of_the_same_code() -> None:
    assert set(FAILURES) == set(get_args(ErrorCode))
    assert {code: failure.code for code, failure in FAILURES.items()} == {code: code for code in FAILURES}


def test_each_has_the_status_of_its_kind() -> None:
    assert {code: failure.status for code, failure in FAILURES.items()} == {
        "invalid_request": 422,
        "not_found": 404,
        "timeout": 504,
        "aborted": 409,
        "rate_limit": 429,
        "internal": 500,
        "insufficient_credits": 402,
        "provider_unavailable": 503,
        "tool_server_unavailable": 503,
        "database_unavailable": 503,
    }
    assert GenerationFailed(run_id="run-1").run_id == "run-1"
