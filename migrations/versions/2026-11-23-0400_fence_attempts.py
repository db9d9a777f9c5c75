"""fence attempts: what another process took over is neither written nor charged any more."""

import sqlalchemy as sa
from alembic import op

revision: str = "8c41f7a2d905"
down_revision: str | None = "5e0c83b1d7a4"

_REQUIRE_ATTEMPT = """
-- The lock of the run's row: it cannot be taken over before the transaction ends.
CREATE FUNCTION require_attempt(account uuid, run text, writer int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM runs WHERE account_id = account AND run_id = run FOR SHARE;
    IF EXISTS (SELECT FROM run_takeovers WHERE account_id = account AND run_id = run AND attempt >= writer)
    THEN
        RAISE EXCEPTION 'another process has taken the run over' USING ERRCODE = 'RT001';
    END IF;
END
$$
"""
_FENCE_ENTRIES = """
CREATE FUNCTION fence_session_entries() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM require_attempt(CAST(project_key AS uuid), run_id, attempt)
       FROM (SELECT DISTINCT project_key, run_id, attempt FROM added WHERE attempt IS NOT NULL) AS writer;
    RETURN NULL;
END
$$
"""
_FENCE_TRIGGER = """
CREATE TRIGGER fence_session_entries
AFTER INSERT ON session_entries
REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION fence_session_entries()
"""

_FENCED_RECEIPTS = (
    "CREATE TABLE fenced_receipts (LIKE charge_receipts INCLUDING DEFAULTS INCLUDING COMMENTS)",
    """
    ALTER TABLE fenced_receipts
      ADD CONSTRAINT pk_fenced_receipts PRIMARY KEY (id),
      ADD CONSTRAINT uq_fenced_receipts_source UNIQUE (account_id, source_system, source_reference),
      ADD CONSTRAINT ck_fenced_receipts_basis CHECK (basis = 'fenced')
    """,
    "CREATE INDEX ix_fenced_receipts_used_at ON fenced_receipts USING brin (used_at)",
    """
    CREATE TRIGGER fenced_receipts_are_final
    BEFORE UPDATE OR DELETE OR TRUNCATE ON fenced_receipts
    FOR EACH STATEMENT EXECUTE FUNCTION charge_receipts_are_final()
    """,
    "CREATE VIEW measured_receipts AS SELECT * FROM charge_receipts UNION ALL SELECT * FROM fenced_receipts",
)


def upgrade() -> None:
    """Apply while older servers may still run: they write no attempt, and are not fenced."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "run_takeovers",
        sa.Column("account_id", sa.Uuid(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False, comment="The attempt that was taken over"),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()")),
        sa.PrimaryKeyConstraint("account_id", "run_id", "attempt", name=op.f("pk_run_takeovers")),
        sa.ForeignKeyConstraint(
            ["account_id", "run_id"],
            ["runs.account_id", "runs.run_id"],
            ondelete="CASCADE",
            name=op.f("fk_run_takeovers_account_id_run_id"),
        ),
    )
    op.add_column(
        "session_entries",
        sa.Column("attempt", sa.Integer(), comment="The attempt that wrote it; null for a copy"),
    )
    for statement in (_REQUIRE_ATTEMPT, _FENCE_ENTRIES, _FENCE_TRIGGER, *_FENCED_RECEIPTS):
        op.execute(statement)
