"""Erasures of end users."""

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Index, Table, Text, Uuid, text

from app.platform.db import UtcDateTime, metadata


def _count(name: str, comment: str | None = None) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default="0", comment=comment)


erasures = Table(
    "erasures",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("account_id", Uuid, ForeignKey("accounts.id"), nullable=False),
    Column("end_user", Text, comment="Null once it is erased"),
    *map(_count, ("runs", "conversations", "receipts")),
    _count("changed_by", "The last transaction that has erased a run"),
    Column("created_at", UtcDateTime, nullable=False, server_default=text("now()")),
    Column("ended_at", UtcDateTime),
    CheckConstraint("(ended_at IS NULL) = (end_user IS NOT NULL)", name="ended"),
)

Index("uq_erasures_end_user", erasures.c.account_id, erasures.c.end_user, unique=True)
