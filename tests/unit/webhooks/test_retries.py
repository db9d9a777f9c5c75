from datetime import UTC, datetime, timedelta

import pytest

from app.webhooks import retries

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
REFUSED = retries.ReceiverResponse(500, "bad_status")


def test_delays_grow_until_the_schedule_ends() -> None:
    pauses = [
        retries.retry_delay(attempts, REFUSED) for attempts in range(1, len(retries.RETRY_SCHEDULE) + 2)
    ]

    *before, last = pauses
    assert last is None
    for pause, planned in zip(before, retries.RETRY_SCHEDULE, strict=True):
        assert pause is not None
        assert planned <= pause <= planned * 1.1


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_every_2xx_status_is_a_success(status: int) -> None:
    assert retries.parse_response(status, None, now=NOW) == retries.ReceiverResponse(status)
    assert retries.ReceiverResponse(status).accepted


@pytest.mark.parametrize("status", [101, 301, 302, 307, 400, 401, 404, 410, 429, 500, 503])
def test_every_other_status_is_a_failure(status: int) -> None:
    answer = retries.parse_response(status, None, now=NOW)

    assert (answer.accepted, answer.problem) == (False, "bad_status")


@pytest.mark.parametrize(
    ("status", "retry_after", "expected"),
    [
        (429, "120", timedelta(minutes=2)),
        (503, "Sat, 21 Nov 2026 09:40:00 GMT", timedelta(minutes=10)),
        (503, "Sat, 21 Nov 2026 09:40:00", timedelta(minutes=10)),
        (429, "9" * 5000, retries.MAX_RETRY_AFTER),
        (429, "soon", None),
        (429, "-5", None),
        (429, "\N{ARABIC-INDIC DIGIT FIVE}", None),
        (500, "120", None),
    ],
)
def test_retry_after_of_a_receiver_is_parsed(
    status: int, retry_after: str, expected: timedelta | None
) -> None:
    assert retries.parse_response(status, retry_after, now=NOW).retry_after == expected


def test_retry_after_delays_the_next_attempt_within_a_limit() -> None:
    later = retries.retry_delay(1, retries.ReceiverResponse(429, "bad_status", timedelta(minutes=2)))
    much_later = retries.retry_delay(1, retries.ReceiverResponse(429, "bad_status", timedelta(days=400)))
    sooner = retries.retry_delay(2, retries.ReceiverResponse(429, "bad_status", timedelta(seconds=-1)))

    assert (later, much_later) == (timedelta(minutes=2), retries.MAX_RETRY_AFTER)
    assert sooner is not None
    assert sooner >= retries.RETRY_SCHEDULE[1]
