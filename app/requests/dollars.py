"""Dollars in requests and settings: exact amounts."""

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")


def _exact(value: object) -> object:
    plain_text = isinstance(value, str) and _DECIMAL.fullmatch(value)
    whole_number = isinstance(value, int) and not isinstance(value, bool)
    if plain_text or whole_number or isinstance(value, Decimal):
        return value
    in_json = 'must be a decimal in quotes, such as "0.10"'
    raise ValueError("must be a decimal, such as 0.10" if isinstance(value, str) else in_json)


Dollars = Annotated[Decimal, BeforeValidator(_exact), Field(max_digits=20, decimal_places=10)]
"""An exact amount; never a float."""

_BELOW_ONE = "|".join(f"{'0' * zeros}[1-9][0-9]{{0,{6 - zeros}}}" for zeros in range(7))
NOT_ZERO = rf"([1-9][0-9]{{0,9}}(\.[0-9]{{1,7}})?|0\.({_BELOW_ONE}))"
"""Whole credits as text, also with zeros at its end; without lookahead, which not every engine has."""
_WHOLE = {"type": "integer", "minimum": 1, "maximum": 9_999_999_999}
ABOVE_ZERO: dict[str, Any] = {"anyOf": [{"type": "string", "pattern": f"^{NOT_ZERO}$"}, _WHOLE]}
"""The JSON schema of `Dollars` in the OpenAPI document."""
