"""Receipts."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    Numeric,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    column,
    table,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeEngine

from app.billing.receipts.records import Receipt
from app.platform.db import UtcDateTime, metadata
from app.platform.postgres.by_time import BY_TIME
from app.platform.postgres.labels import index_labels

_SQL_TYPES: Mapping[Any, TypeEngine[Any]] = {
    UUID: Uuid(),
    str: Text(),
    int: BigInteger(),
    Decimal: Numeric(20, 10),
    bool: Boolean(),
    datetime: UtcDateTime,
}


def _columns_of(record: type, *special: Column[Any]) -> Iterator[Column[Any]]:
    """A column for each field of a record: the type follows from the annotation, `| None` is nullable.

    `special` columns are used as they are: keys, comments, other types.
    """
    given = {column.name: column for column in special}
    for name, annotation in get_type_hints(record).items():
        kinds = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
        python_type = str if get_origin(kinds[0]) is Literal else kinds[0]
        yield given.get(name, Column(name, _SQL_TYPES.get(python_type), nullable=NoneType in kinds))


def _receipt_columns() -> Iterator[Column[Any]]:
    return _columns_of(
        Receipt,
        Column("id", Uuid, primary_key=True),
        Column("source_reference", Text, nullable=False, comment="run_id/attempt/message_id"),
        Column("attempt", Integer, nullable=False),
        Column("usage_unit_id", Text, nullable=False, comment="The message id of the API"),
        Column("account_id", Uuid, nullable=False),
        Column("api_key_id", Uuid, nullable=False),
        Column(
            "cache_savings_usd",
            Numeric(20, 10),
            nullable=False,
            server_default="0",
            comment="What cache reads saved against plain input",
        ),
        Column("note", Text, comment="What is unusual about the message"),
        Column(
            "provider_usage",
            JSONB,
            nullable=False,
            server_default="{}",
            comment="The provider's whole usage object",
        ),
        Column("lines", JSONB, nullable=False, server_default="[]", comment="What the cost consists of"),
        Column("cache_miss", JSONB, comment="What the provider should have found in its cache"),
        Column(
            "cache_miss_usd",
            Numeric(20, 10),
            nullable=False,
            server_default="0",
            comment="What the miss cost against a cache read",
        ),
        Column("unpriced", JSONB, nullable=False, server_default="[]", comment="What has no known price"),
        Column("end_user", Text, comment="The caller's id of the person the message was for"),
        Column("tags", JSONB(none_as_null=True), comment="Names and values by which usage is summed up"),
        Column(
            "used_at",
            UtcDateTime,
            nullable=False,
            server_default=text("clock_timestamp()"),
            comment="When the message began",
        ),
    )


charge_receipts = Table(
    "charge_receipts",
    metadata,
    *_receipt_columns(),
    ForeignKeyConstraint(["account_id"], ["accounts.id"]),
    ForeignKeyConstraint(["api_key_id"], ["api_keys.id"]),
    UniqueConstraint("account_id", "source_system", "source_reference", name="uq_charge_receipts_source"),
    CheckConstraint("executor_type IN ('claude_sdk', 'messages_api', 'external')", name="executor_type"),
    CheckConstraint("basis IN ('final', 'partial', 'recovered', 'unpriced', 'adjustment')", name="basis"),
    CheckConstraint("origin IN ('assistant', 'subagent', 'hidden')", name="origin"),
)

fenced_receipts = Table(
    "fenced_receipts",
    metadata,
    # The same columns in the same order: `measured_receipts` is the union of both tables.
    *_receipt_columns(),
    UniqueConstraint("account_id", "source_system", "source_reference", name="uq_fenced_receipts_source"),
    CheckConstraint("basis = 'fenced'", name="basis"),
)
"""Messages that an attempt began after another process had taken over its run. The provider charges them; the
account is not charged."""

Index("ix_fenced_receipts_used_at", fenced_receipts.c.used_at, **BY_TIME)

measured_receipts = table("measured_receipts", *(column(each.name, each.type) for each in charge_receipts.c))
"""A view: everything the provider charges, for its accounts."""

Index(
    "ix_charge_receipts_run",
    charge_receipts.c.account_id,
    charge_receipts.c.run_id,
    charge_receipts.c.used_at,
    charge_receipts.c.id,
)
Index(
    "ix_charge_receipts_newest",
    charge_receipts.c.account_id,
    charge_receipts.c.used_at.desc(),
    charge_receipts.c.id.desc(),
)
index_labels(charge_receipts, time="used_at", id_="id")
Index("ix_charge_receipts_used_at", charge_receipts.c.used_at, **BY_TIME)

Index("ix_charge_receipts_unpriced", charge_receipts.c.id, postgresql_where=text("basis = 'unpriced'"))
Index(
    "ix_charge_receipts_unusual",
    charge_receipts.c.account_id,
    charge_receipts.c.used_at.desc(),
    charge_receipts.c.id.desc(),
    postgresql_where=text("basis <> 'final' OR origin <> 'assistant'"),
)
