"""Budgets, what is spent of them, which triggers keep (see the migrations), and what is held for runs."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Table,
    Text,
    Uuid,
    text,
)

from app.platform.db import UtcDateTime, metadata

budgets = Table(
    "budgets",
    metadata,
    Column("account_id", Uuid, ForeignKey("accounts.id"), primary_key=True),
    Column("id", Text, primary_key=True),
    Column("scope", Text, nullable=False, comment="account, key, graph, endUser or tag"),
    Column("match", Text, comment="One value of the scope; null: each of them by itself"),
    Column("window", Text, nullable=False, comment="hour, day, month or total"),
    Column("credits", BigInteger, comment="Null: it limits tokens"),
    Column("tokens", BigInteger),
    Column("mode", Text, nullable=False, comment="hard: calls are refused; soft: reported"),
    Column("time_zone", Text, nullable=False),
    Column("is_operators", Boolean, nullable=False, comment="Only admin may change it"),
    Column("created_at", UtcDateTime, nullable=False, server_default=text("now()")),
    Column("updated_at", UtcDateTime, nullable=False, server_default=text("now()")),
    CheckConstraint("(credits IS NULL) <> (tokens IS NULL)", name="one_limit"),
)

budget_spending = Table(
    "budget_spending",
    metadata,
    Column("account_id", Uuid, primary_key=True),
    Column("budget_id", Text, primary_key=True),
    Column("value", Text, primary_key=True, comment="Of the scope; empty for the account"),
    Column("starts_at", UtcDateTime, primary_key=True, comment="Of the window"),
    Column("credits", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("reached_at", UtcDateTime, comment="When it was found to have reached the limit"),
    Column("refused_at", UtcDateTime, comment="When a call needed more than was left"),
    ForeignKeyConstraint(
        ["account_id", "budget_id"], ["budgets.account_id", "budgets.id"], ondelete="CASCADE"
    ),
)

budget_holds = Table(
    "budget_holds",
    metadata,
    Column("account_id", Uuid, ForeignKey("accounts.id"), primary_key=True),
    Column("run_id", Text, primary_key=True),
    Column("credits", BigInteger, nullable=False, comment="What its calls may cost at most"),
    Column("tokens", BigInteger, nullable=False),
)
