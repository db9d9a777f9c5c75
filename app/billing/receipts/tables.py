"""Receipts."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy import column
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeEngine

from app.billing.receipts.records import Receipt
from app.platform.db import UtcDateTime, metadata
from app.platform.postgres.by_time import BY_TIME
from app.platform.postgres.labels import index_labels

_SQL_TYPES: Mapping[Any, TypeEngine[Any]] = {
    UUID: sa.Uuid(),
    str: sa.Text(),
    int: sa.BigInteger(),
    Decimal: sa.Numeric(20, 10),
    bool: sa.Boolean(),
    datetime: UtcDateTime,
}


def _columns_of(record: type, *special: sa.Column[Any]) -> Iterator[sa.Column[Any]]:
    """A column for each field of a record: the type follows from the annotation, `| None` is nullable.

    `special` columns are used as they are: keys, comments, other types.
    """
    given = {column.name: column for column in special}
    for name, annotation in get_type_hints(record).items():
        kinds = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
        python_type = str if get_origin(kinds[0]) is Literal else kinds[0]
        yield given.get(name, sa.Column(name, _SQL_TYPES.get(python_type), nullable=NoneType in kinds))


def _receipt_columns() -> Iterator[sa.Column[Any]]:
    return _columns_of(
        Receipt,
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("source_reference", sa.Text, nullable=False, comment="run_id/attempt/message_id"),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("usage_unit_id", sa.Text, nullable=False, comment="The message id of the API"),
        sa.Column("account_id", sa.Uuid, nullable=False),
        sa.Column("api_key_id", sa.Uuid, nullable=False),
        sa.Column(
            "cache_savings_usd",
            sa.Numeric(20, 10),
            nullable=False,
            server_default="0",
            comment="What cache reads saved against plain input",
        ),
        sa.Column("note", sa.Text, comment="What is unusual about the message"),
        sa.Column(
            "provider_usage",
            JSONB,
            nullable=False,
            server_default="{}",
            comment="The provider's whole usage object",
        ),
        sa.Column("lines", JSONB, nullable=False, server_default="[]", comment="What the cost consists of"),
        sa.Column("cache_miss", JSONB, comment="What the provider should have found in its cache"),
        sa.Column(
            "cache_miss_usd",
            sa.Numeric(20, 10),
            nullable=False,
            server_default="0",
            comment="What the miss cost against a cache read",
        ),
        sa.Column("unpriced", JSONB, nullable=False, server_default="[]", comment="What has no known price"),
        sa.Column("end_user", sa.Text, comment="The caller's id of the person the message was for"),
        sa.Column("tags", JSONB(none_as_null=True), comment="Names and values by which usage is summed up"),
        sa.Column(
            "used_at",
            UtcDateTime,
            nullable=False,
            server_default=sa.text("clock_timestamp()"),
            comment="When the message began",
        ),
    )


charge_receipts = sa.Table(
    "charge_receipts",
    metadata,
    *_receipt_columns(),
    sa.ForeignKeyConstraint(["account_id"], ["accounts.id"]),
    sa.ForeignKeyConstraint(["api_key_id"], ["api_keys.id"]),
    sa.UniqueConstraint("account_id", "source_system", "source_reference", name="uq_charge_receipts_source"),
    sa.CheckConstraint("executor_type IN ('claude_sdk', 'messages_api', 'external')", name="executor_type"),
    sa.CheckConstraint("basis IN ('final', 'partial', 'recovered', 'unpriced', 'adjustment')", name="basis"),
    sa.CheckConstraint("origin IN ('assistant', 'subagent', 'hidden')", name="origin"),
)

fenced_receipts = sa.Table(
    "fenced_receipts",
    metadata,
    # The same columns in the same order: `measured_receipts` is the union of both tables.
    *_receipt_columns(),
    sa.UniqueConstraint("account_id", "source_system", "source_reference", name="uq_fenced_receipts_source"),
    sa.CheckConstraint("basis = 'fenced'", name="basis"),
)
"""Messages that an attempt began after another process had taken over its run. The provider charges them; the
account is not charged."""

sa.Index("ix_fenced_receipts_used_at", fenced_receipts.c.used_at, **BY_TIME)

measured_receipts = sa.table(
    "measured_receipts", *(column(each.name, each.type) for each in charge_receipts.c)
)
"""A view: everything the provider charges, for its accounts."""

sa.Index(
    "ix_charge_receipts_run",
    charge_receipts.c.account_id,
    charge_receipts.c.run_id,
    charge_receipts.c.used_at,
    charge_receipts.c.id,
)
sa.Index(
    "ix_charge_receipts_newest",
    charge_receipts.c.account_id,
    charge_receipts.c.used_at.desc(),
    charge_receipts.c.id.desc(),
)
MISS_CAUSE = charge_receipts.c.cache_miss["cause"].astext
sa.Index(
    "ix_charge_receipts_cache_miss",
    charge_receipts.c.account_id,
    charge_receipts.c.used_at.desc(),
    charge_receipts.c.id.desc(),
    postgresql_where=MISS_CAUSE.is_not(None),
)
index_labels(charge_receipts, time="used_at", id_="id")
sa.Index("ix_charge_receipts_used_at", charge_receipts.c.used_at, **BY_TIME)

sa.Index("ix_charge_receipts_unpriced", charge_receipts.c.id, postgresql_where=sa.text("basis = 'unpriced'"))
sa.Index(
    "ix_charge_receipts_unusual",
    charge_receipts.c.account_id,
    charge_receipts.c.used_at.desc(),
    charge_receipts.c.id.desc(),
    postgresql_where=sa.text("basis <> 'final' OR origin <> 'assistant'"),
)
