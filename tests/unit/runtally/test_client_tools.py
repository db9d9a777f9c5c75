"""Results of client tools that a run does not need."""

import pytest

from runtally.client_tools import require_over
from runtally.errors import ApiError, Conflict, NotFound


@pytest.mark.parametrize(
    "error",
    [
        Conflict(409, code="tool_call_answered"),
        Conflict(409, code="run_ended"),
        NotFound(404, code="tool_call_not_found"),
    ],
)
def test_a_result_that_the_run_does_not_wait_for_is_no_failure(error: ApiError) -> None:
    require_over(error)


@pytest.mark.parametrize(
    "error", [Conflict(409, code="run_on_another_server"), NotFound(404, code="run_not_found")]
)
def test_other_refusals_of_a_result_are_failures(error: ApiError) -> None:
    with pytest.raises(ApiError):
        require_over(error)
