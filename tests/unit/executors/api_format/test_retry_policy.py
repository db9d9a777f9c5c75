import time
from email.utils import formatdate

import pytest

from app.executors.api_format.retry_policy import is_temporary, pause_s


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (None, {}, True),
        *((status, {}, True) for status in (408, 409, 429, 500, 503, 529)),
        *((status, {}, False) for status in (400, 401, 404, 413)),
        (529, {"x-should-retry": "false"}, False),
        (400, {"x-should-retry": "true"}, True),
    ],
)
def test_calls_that_may_succeed_later(status: int | None, headers: dict[str, str], *, expected: bool) -> None:
    assert is_temporary(status, headers) is expected


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3),
        ({"retry-after-ms": "250", "retry-after": "3"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "3"}, 3),
        ({"retry-after": "1e400"}, 86_400),
        ({"retry-after": formatdate(time.time() + 9_000_000)}, 86_400),
    ],
)
def test_a_provider_requests_a_pause(headers: dict[str, str], seconds: float) -> None:
    assert pause_s(headers, attempt=1) == seconds


@pytest.mark.parametrize("value", ["", "nan", "-1", "0", "soon", "Thu, 99 Foo 99999 99:99:99", formatdate(0)])
@pytest.mark.parametrize(("attempt", "most"), [(1, 0.5), (2, 1), (9, 8)])
def test_otherwise_the_pause_grows_up_to_a_limit(value: str, attempt: int, most: float) -> None:
    assert most * 0.75 <= pause_s({"retry-after": value}, attempt=attempt) <= most
