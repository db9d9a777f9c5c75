"""Expressions for statements."""

from collections.abc import Iterable

from sqlalchemy import ColumnElement, Text, any_, cast
from sqlalchemy.dialects.postgresql import ARRAY


def is_one_of(column: ColumnElement[str], texts: Iterable[str]) -> ColumnElement[bool]:
    """Whether the column has one of these texts, however many.

    With `in_` each of them is a parameter, and a statement can have 32,767.
    """
    return column == any_(cast(list(texts), ARRAY(Text)))
