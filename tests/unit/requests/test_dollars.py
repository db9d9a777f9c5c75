"""Dollars in the API document: what it allows is what the API takes."""

import re

import pytest

from app.requests.dollars import NOT_ZERO


@pytest.mark.parametrize(
    "text", ["0.5", "0.50", "0.5000000", "0.0000001", "0.0100", "1", "20.00", "9999999999.9999999"]
)
def test_an_amount_may_end_with_zeros(text: str) -> None:
    assert re.fullmatch(NOT_ZERO, text)


@pytest.mark.parametrize(
    "text", ["", "0", "0.0", "0.0000000", "0.00000001", "0.50000000", "1.", "01", "-1", "1e2"]
)
def test_zero_and_parts_of_a_credit_are_none(text: str) -> None:
    assert not re.fullmatch(NOT_ZERO, text)
