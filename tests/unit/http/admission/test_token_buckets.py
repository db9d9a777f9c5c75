import pytest

from app.http.admission.token_buckets import MAX_BUCKETS, TokenBuckets
from tests.unit.clock import Clock


def test_a_bucket_is_full_at_first_and_fills_again() -> None:
    clock = Clock()
    buckets = TokenBuckets(per_s=2, burst=3, clock=clock)

    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    clock.now += 0.5
    assert buckets.wait_s("a") == 0
    assert [buckets.take("a") for _ in range(2)] == [0, 0.5]
    clock.now += 60
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]


def test_every_key_has_its_own_bucket() -> None:
    buckets = TokenBuckets(per_s=1, burst=1, clock=Clock())

    assert (buckets.take("a"), buckets.take("b"), buckets.take("a")) == (0, 0, 1)


def test_a_clock_that_jumps_back_removes_no_tokens() -> None:
    clock = Clock()
    buckets = TokenBuckets(per_s=1, burst=2, clock=clock)
    buckets.take("a")
    clock.now -= 50

    assert buckets.take("a") == 0


def test_the_number_of_buckets_is_limited() -> None:
    buckets = TokenBuckets(per_s=1, burst=1, clock=Clock())
    for number in range(MAX_BUCKETS + 1):
        buckets.take(number)

    assert buckets.take(0) == 0
    assert buckets.take(MAX_BUCKETS) == pytest.approx(1)


def test_a_count_above_the_bucket_size_takes_a_full_bucket() -> None:
    clock = Clock()
    buckets = TokenBuckets(per_s=2, burst=4, clock=clock)

    assert [buckets.take("a", 3), buckets.take("a", 3), buckets.take("a", 9)] == [0, 1, 1.5]
    clock.now += 1.5
    assert buckets.take("a", 9) == 0
    assert buckets.take("a") == 0.5
