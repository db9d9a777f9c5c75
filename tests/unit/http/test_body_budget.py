import pytest

from app.http.body_budget import BodiesFull, BodyBudget, TooManyBodies


def test_what_is_held_counts_until_it_is_let_go() -> None:
    budget = BodyBudget(total=100, per_account=60)

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
    budget = BodyBudget(total=100, per_account=60)

    with budget.reservation("a") as one, budget.reservation("b") as other:
        one.grow_to(60)
        other.grow_to(40)
        with pytest.raises(BodiesFull), budget.reservation("c") as more:
            more.grow_to(1)
        assert budget.held == 100
    assert budget.held == 0


def test_a_refused_request_holds_what_it_had_until_its_end() -> None:
    budget = BodyBudget(total=100, per_account=60)

    def asks_for_too_much() -> None:
        with budget.reservation("a") as held:
            held.grow_to(50)
            held.grow_to(61)

    with pytest.raises(TooManyBodies):
        asks_for_too_much()
    assert budget.held == 0
