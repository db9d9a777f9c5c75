import operator
import time
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tools.builtin.calculate import (
    MAX_LENGTH,
    NotCalculable,
    calculate,
    calculate_expression,
    format_decimal,
)
from tests.unit.tools.calling import call

small = st.decimals(min_value=-1000, max_value=1000, places=2, allow_nan=False, allow_infinity=False)
exact_operators: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
expressions = st.recursive(
    small.map(lambda number: (f"({number})", number)),
    lambda inner: st.tuples(inner, st.sampled_from(sorted(exact_operators)), inner).map(
        lambda parts: (
            f"({parts[0][0]} {parts[1]} {parts[2][0]})",
            exact_operators[parts[1]](parts[0][1], parts[2][1]),
        )
    ),
    max_leaves=6,
)


def value_of(expression: str) -> Decimal | None:
    try:
        return calculate(expression).value
    except NotCalculable:
        return None


@given(expressions)
def test_sums_and_products_agree_with_decimal(case: tuple[str, Decimal]) -> None:
    expression, expected = case
    assert calculate(expression) == (expected, True)


@given(small, small.filter(bool))
def test_division_agrees_with_decimal(left: Decimal, right: Decimal) -> None:
    quotient = calculate(f"({left}) / ({right})")
    assert quotient.exact == (Fraction(quotient.value) == Fraction(left) / Fraction(right))
    assert abs(Fraction(quotient.value) - Fraction(left) / Fraction(right)) <= Fraction(1, 10**24)
    assert calculate(f"({left}) // ({right})").value == left // right
    assert calculate(f"({left}) % ({right})").value == left % right


@given(small, st.integers(0, 6))
def test_whole_powers_agree_with_fractions(base: Decimal, exponent: int) -> None:
    if base or exponent:
        power = calculate(f"({base}) ** {exponent}")
        assert power.exact
        assert Fraction(power.value) == Fraction(base) ** exponent


@given(st.text(alphabet="0123456789.eE_+-*/%() \t", max_size=MAX_LENGTH + 5))
def test_arithmetic_looking_text_has_a_value_or_is_refused(text: str) -> None:
    value = value_of(text)
    if value is not None:
        assert value.is_finite()
        assert Decimal(format_decimal(value)) == value


@given(st.text())
def test_any_text_has_a_value_or_is_refused(text: str) -> None:
    value = value_of(text)
    assert value is None or value.is_finite()


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("0.1 + 0.2", "0.3"),
        ("(19.99 * 3 - 5) / 1.19", "46.1932773109243697478991596639"),
        ("1/3*3", "1"),
        ("-7 // 3", "-2"),
        ("-7 % 3", "-1"),
        ("-2**2", "-4"),
        ("2*+-3", "-6"),
        ("1_000 * 3", "3000"),
        ("0 * -1", "0"),
        ("1e500", "1E+500"),
    ],
)
def test_values_are_written_plainly(expression: str, value: str) -> None:
    assert format_decimal(calculate(expression).value) == value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1 / 0", "divides by zero"),
        ("0 ** -1", "divides by zero"),
        ("0 ** 0", "undefined"),
        ("(-8) ** 0.5", "undefined"),
        ("9**9**9", "exponent beyond 1000"),
        ("1e1000 * 10", "too large"),
        ("1e-1000 ** 2", "too large or too small"),
        ("1e99999999999999999999", "too large"),
        ("1e1000 // 3", "longer than 100 digits"),
        ("abs(1)", "may hold only"),
        ("__import__('os')", "may hold only"),
        ("(1)(2)", "not an arithmetic expression"),
        ("", "not an arithmetic expression"),
        ("-" * 200 + "1", "nested more than"),
        ("(" * 250 + "1", "not an arithmetic expression"),
        ("1" * (MAX_LENGTH + 1), "longer than 300 characters"),
    ],
)
def test_what_has_no_value_is_refused_with_the_reason(expression: str, message: str) -> None:
    with pytest.raises(NotCalculable, match=message):
        calculate(expression)


@pytest.mark.parametrize(
    "expression",
    ["9**9**9", "9.9e999**0.999999", "*".join(["9.9**999.9"] * 25), "1.000001**999.999**0.5" * 5],
)
def test_no_expression_keeps_the_server_busy(expression: str) -> None:
    started = time.process_time()
    value = value_of(expression)
    assert value is None or value.is_finite()
    assert time.process_time() - started < 1.0


async def test_the_tool_tells_the_model_and_the_client() -> None:
    result = await call(calculate_expression, {"expression": "0.1 + 0.2"})
    assert result.markdown == "0.1 + 0.2 = 0.3"
    assert result.visible == {"expression": "0.1 + 0.2", "result": "0.3", "exact": True}


async def test_a_rounded_result_says_so() -> None:
    result = await call(calculate_expression, {"expression": "2/3"})
    assert result.markdown == "2/3 ≈ 0.666666666666666666666666666667"


async def test_a_wrong_expression_is_explained_to_the_model_only() -> None:
    result = await call(calculate_expression, {"expression": "1/0"})
    assert (result.code, result.visible) == ("invalid_args", {"error": "invalid_args"})
    assert result.markdown.endswith("expression: divides by zero")
