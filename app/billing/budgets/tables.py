"""Budgets, what is spent of them, which triggers keep (see the migrations), and what is held for runs."""

import sqlalchemy as sa

from app.platform.db import UtcDateTime, metadata

budgets = sa.Table(
    "budgets",
    metadata,
    sa.Column("account_id", sa.Uuid, sa.ForeignKey("accounts.id"), primary_key=True),
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("scope", sa.Text, nullable=False, comment="account, key, graph, endUser or tag"),
    sa.Column("match", sa.Text, comment="One value of the scope; null: each of them by itself"),
    sa.Column("window", sa.Text, nullable=False, comment="hour, day, month or total"),
    sa.Column("credits", sa.BigInteger, comment="Null: it limits tokens"),
    sa.Column("tokens", sa.BigInteger),
    sa.Column("mode", sa.Text, nullable=False, comment="hard: calls are refused; soft: reported"),
    sa.Column("time_zone", sa.Text, nullable=False),
    sa.Column("is_operators", sa.Boolean, nullable=False, comment="Only admin may change it"),
    sa.Column("created_at", UtcDateTime, nullable=False, server_default=sa.text("now()")),
    sa.Column("updated_at", UtcDateTime, nullable=False, server_default=sa.text("now()")),
    sa.CheckConstraint("(credits IS NULL) <> (tokens IS NULL)", name="one_limit"),
)

budget_spending = sa.Table(
    "budget_spending",
    metadata,
    sa.Column("account_id", sa.Uuid, primary_key=True),
    sa.Column("budget_id", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, primary_key=True, comment="Of the scope; empty for the account"),
    sa.Column("starts_at", UtcDateTime, primary_key=True, comment="Of the window"),
    sa.Column("credits", sa.BigInteger, nullable=False),
    sa.Column("tokens", sa.BigInteger, nullable=False),
    sa.Column("reached_at", UtcDateTime, comment="When it was found to have reached the limit"),
    sa.Column("refused_at", UtcDateTime, comment="When a call needed more than was left"),
    sa.ForeignKeyConstraint(
        ["account_id", "budget_id"], ["budgets.account_id", "budgets.id"], ondelete="CASCADE"
    ),
)

budget_holds = sa.Table(
    "budget_holds",
    metadata,
    sa.Column("account_id", sa.Uuid, sa.ForeignKey("accounts.id"), primary_key=True),
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("credits", sa.BigInteger, nullable=False, comment="What its calls may cost at most"),
    sa.Column("tokens", sa.BigInteger, nullable=False),
)
