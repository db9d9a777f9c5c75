import pytest

from app.executors.api_format.failures import failure_of_status


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, "invalid_request"),
        (401, "provider_unavailable"),
        (413, "invalid_request"),
        (418, "internal"),
        (429, "rate_limit"),
        (500, "provider_unavailable"),
        (529, "provider_unavailable"),
    ],
)
def test_clients_get_a_code_for_the_status_of_the_last_call(status: int, error: str) -> None:
    assert failure_of_status(status) == (error, "error")
