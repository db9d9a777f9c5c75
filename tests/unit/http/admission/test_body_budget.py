import pytest

from app.http.admission.body_budget import BodiesFull, BodyBudget, TooManyBodies
from app.http.admission.token_buckets import TokenBuckets

UNLIMITED = TokenBuckets(per_s=1e9, burst=1e9)


def test_what_is_held_counts_until_it_is_let_go() -> None:
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


def test_all_together_have_a_bound() -> None:
    budget = BodyBudget(total=100, per_account=60, rate=UNLIMITED)

    with budget.reservation("a") as one, budget.reservation("b") as other:
        one.grow_to(60)
        other.grow_to(40)
        with pytest.raises(BodiesFull), budget.reservation("c") as more:
            more.grow_to(1)
        assert budget.held == 100
    assert budget.held == 0


def test_a_refused_request_holds_what_it_had_until_its_end() -> None:
    budget = BodyBudget(total=100, per_account=60, rate=UNLIMITED)

    def asks_for_too_much() -> None:
        with budget.reservation("a") as held:
            held.grow_to(50)
            held.grow_to(61)

    with pytest.raises(TooManyBodies):
        asks_for_too_much()
    assert budget.held == 0


def test_an_account_sends_only_so_much_in_the_course_of_time() -> None:
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
