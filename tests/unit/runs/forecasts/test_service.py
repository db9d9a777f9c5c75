from decimal import Decimal

from app.runs.forecasts.service import Forecast, Quantiles, _quantiles


def test_half_of_the_values_and_95_of_100_are_no_larger() -> None:
    values = [Decimal(value) for value in range(100, 0, -1)]

    assert _quantiles(values) == Quantiles(Decimal(50), Decimal(95))
    assert _quantiles(values[:1]) == Quantiles(Decimal(100), Decimal(100))
    assert _quantiles([Decimal(1), Decimal(2)]) == Quantiles(Decimal(1), Decimal(2))


def test_a_batch_costs_its_items_and_takes_as_many_rounds_as_it_needs() -> None:
    one = Forecast(Quantiles(Decimal("0.1"), Decimal("0.5")), Quantiles(Decimal(2), Decimal(9)), 30)

    whole = one.times(9, parallelism=4)

    assert whole.cost_usd == Quantiles(Decimal("0.9"), Decimal("4.5"))
    assert whole.seconds == Quantiles(Decimal(6), Decimal(27))
    assert whole.runs == 30
