"""Expressions for statements, and how these are planned."""

from collections.abc import Iterable
from uuid import UUID

from sqlalchemy import ColumnElement, Table, Text, any_, cast, select, text, tuple_
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

_SERIALIZE = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))")
_PLAN_BY_VALUES = text("SET LOCAL plan_cache_mode = force_custom_plan")


def is_one_of(column: ColumnElement[str], texts: Iterable[str]) -> ColumnElement[bool]:
    """Whether the column has one of these texts, however many.

    With `in_` each of them is a parameter, and a statement can have 32,767.
    """
    return column == any_(cast(list(texts), ARRAY(Text)))


def locked_in_order(table: Table, *having: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether a row has these properties, for a statement that changes several: locks them by their keys.

    Without an order, statements that change the same rows could wait for each other.
    """
    keys = table.primary_key.columns
    return tuple_(*keys).in_(select(*keys).where(*having).order_by(*keys).with_for_update())


async def serialize(connection: AsyncConnection, what: str, account_id: UUID) -> None:
    """Let no other transaction create such things for the account until this one ends."""
    await connection.execute(_SERIALIZE, {"name": f"runtally.{what}.{account_id}"})


async def plan_by_values(connection: AsyncConnection) -> None:
    """Plan the statements of this transaction for their accounts and times, each time.

    From its sixth execution on, a connection may use one plan for all: for a large account or a long time it
    can be the wrong one. Planning costs less than a millisecond.
    """
    await connection.execute(_PLAN_BY_VALUES)
