"""attribute runs, receipts and sums of usage to end users and tags."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSON, JSONB

revision: str = "7e2c94b1d06f"
down_revision: str | None = "b5d2e8417c6f"
compatibility: str = "expand"

_END_USER = "The caller's id of the person {} for"
_TAGS = "Names and values by which usage is summed up"
_COLUMNS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "cost_usd",
    "charged_credits",
    "cache_savings_usd",
    "cache_miss_usd",
    "web_search_requests",
)
_SUMS = ("receipts", *_COLUMNS, "web_fetch_requests")
_KEY = ("account_id", "label", "bucket", "value", "model", "graph_id", "api_key_id")

# One row for each label of a receipt.
_LABELS = """
CREATE FUNCTION labels_of(end_user text, tags jsonb) RETURNS TABLE (label text, value text)
LANGUAGE sql IMMUTABLE AS $$
    SELECT 'endUser', end_user WHERE end_user IS NOT NULL
    UNION ALL SELECT 'tag:' || tag.key, tag.value FROM jsonb_each_text(tags) AS tag
$$
"""

_MEASURED = """
CREATE OR REPLACE VIEW measured_receipts AS
SELECT * FROM charge_receipts UNION ALL SELECT * FROM fenced_receipts
"""


def _add(table: str, key: Sequence[str], source: str) -> str:
    """Add the new receipts to a table of sums, in the order of its key, so that none can deadlock."""
    own = {"bucket": "date_bin('15 minutes', used_at, 'epoch')"}
    order = ", ".join(map(str, range(1, len(key) + 1)))
    return f"""
    INSERT INTO {table} AS held ({", ".join((*key, *_SUMS))})
    SELECT {", ".join(own.get(name, name) for name in key)},
           count(*) FILTER (WHERE basis <> 'adjustment'), {", ".join(f"sum({name})" for name in _COLUMNS)},
           sum(web_fetches_of(basis, provider_usage))
      FROM {source} GROUP BY {order} ORDER BY {order}
    ON CONFLICT ({", ".join(key)}) DO UPDATE SET
        {", ".join(f"{name} = held.{name} + excluded.{name}" for name in _SUMS)};
    """  # noqa: S608 - constants


_ROLLUPS = f"""
CREATE OR REPLACE FUNCTION usage_rollups_follow_receipts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {_add("usage_rollups", ("account_id", "bucket", "model", "graph_id", "api_key_id"), "added")}
    IF EXISTS (SELECT FROM added WHERE end_user IS NOT NULL OR tags IS NOT NULL) THEN
        {_add("labelled_rollups", _KEY, "added, labels_of(added.end_user, added.tags)")}
    END IF;
    RETURN NULL;
END
$$
"""


def _create_labelled_rollups() -> None:
    counts = [name for name in _SUMS if not name.endswith("_usd")]
    sums = [
        sa.Column(name, sa.BigInteger() if name in counts else sa.Numeric(24, 10), nullable=False)
        for name in _SUMS
    ]
    op.create_table(
        "labelled_rollups",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False, comment="endUser, or tag: and the name of a tag"),
        sa.Column("bucket", sa.DateTime(timezone=True), nullable=False, comment="Start of 15 minutes"),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("graph_id", sa.Text(), nullable=False),
        sa.Column("api_key_id", sa.Uuid(), nullable=False),
        *sums,
        sa.PrimaryKeyConstraint(*_KEY, name=op.f("pk_labelled_rollups")),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_labelled_rollups_account_id_accounts")
        ),
    )
    op.create_index(
        "ix_labelled_rollups_value", "labelled_rollups", ["account_id", "label", "value", "bucket"]
    )


def upgrade() -> None:
    """Apply while older servers may still run: their runs and receipts have no labels."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    for table, what in (
        ("runs", "it is"),
        ("charge_receipts", "the message was"),
        ("fenced_receipts", "the message was"),
    ):
        op.add_column(table, sa.Column("end_user", sa.Text(), comment=_END_USER.format(what)))
        op.add_column(table, sa.Column("tags", JSONB(), comment=_TAGS))
    op.add_column("runs", sa.Column("metadata", JSON(), comment="What its caller keeps with it"))
    for table, at, id_ in (("runs", "created_at", "run_id"), ("charge_receipts", "used_at", "id")):
        op.create_index(
            f"ix_{table}_end_user",
            table,
            ["account_id", "end_user", sa.text(f"{at} DESC"), sa.text(f"{id_} DESC")],
            postgresql_where=sa.text("end_user IS NOT NULL"),
        )
        op.create_index(
            f"ix_{table}_tags",
            table,
            ["tags"],
            postgresql_using="gin",
            postgresql_ops={"tags": "jsonb_path_ops"},
            postgresql_where=sa.text("tags IS NOT NULL"),
        )
    _create_labelled_rollups()
    for statement in (_MEASURED, _LABELS, _ROLLUPS):
        op.execute(statement)
