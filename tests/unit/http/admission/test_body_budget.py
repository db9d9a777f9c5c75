import pytest

from app.http.admission.body_budget import BodiesFull, BodyBudget, TooManyBodies
from app.http.admission.token_buckets import TokenBuckets

UNLIMITED = TokenBuckets(per_s=1e9, burst=1e9)


def test_reserved_bytes_count_until_they_are_released() -> None:
    budget = BodyBudget(total=100, per_account=60, rate=UNLIMITED)

    with budget.reservation("a") as held:
        held.grow_to(40)
        held.grow_to(60)
        held.grow_to(10)
        assert budget.held == 60
        with pytest.raises(TooManyBodies) as refused, budget.reservation("a") as more:
            more.grow_to(1)
        assert refused.value.retry_after_s is not None
    assert budget.held == 0


def test_the_total_is_limited() -> None:
    budget = BodyBudget(total=100, per_account=60, rate=UNLIMITED)

    with budget.reservation("a") as one, budget.reservation("b") as other:
        one.grow_to(60)
        other.grow_to(40)
        with pytest.raises(BodiesFull), budget.reservation("c") as more:
            more.grow_to(1)
        assert budget.held == 100
    assert budget.held == 0


def test_a_rejected_request_keeps_its_reservation_until_its_end() -> None:
    budget = BodyBudget(total=100, per_account=60, rate=UNLIMITED)

    def reads_too_much() -> None:
        with budget.reservation("a") as held:
            held.grow_to(50)
            held.grow_to(61)

    with pytest.raises(TooManyBodies):
        reads_too_much()
    assert budget.held == 0


def test_the_bytes_per_second_of_an_account_are_limited() -> None:
    budget = BodyBudget(total=100, per_account=60, rate=TokenBuckets(per_s=0.1, burst=80))

    def sends(account: str, size: int) -> None:
        with budget.reservation(account) as held:
            held.grow_to(size)

    sends("a", 60)
    with pytest.raises(TooManyBodies) as refused:
        sends("a", 40)
    sends("a", 20)
    sends("b", 60)

    assert refused.value.retry_after_s is not None
    assert 190 < refused.value.retry_after_s <= 200
    assert budget.held == 0
