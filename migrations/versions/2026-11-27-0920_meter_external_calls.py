"""meter external calls: receipts of clients' own agents, whose runs take no place of a worker."""

from alembic import op

revision: str = "5b1e0c93d7fa"
down_revision: str | None = "d19a47e6b03c"
compatibility: str = "expand"

_ACTIVE_RUNS = """
CREATE OR REPLACE FUNCTION active_runs(account uuid) RETURNS int LANGUAGE sql STABLE AS $$
    SELECT count(*)::int FROM runs
     WHERE account_id = account AND status IN ('queued', 'running') AND held_for IS NULL
       AND graph_id NOT LIKE 'external:%'
$$
"""


def upgrade() -> None:
    """Apply while older servers may still run: they write none of these runs and receipts."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute(_ACTIVE_RUNS)
    op.execute("ALTER TABLE charge_receipts DROP CONSTRAINT ck_charge_receipts_executor_type")
    op.execute(
        "ALTER TABLE charge_receipts ADD CONSTRAINT ck_charge_receipts_executor_type "
        "CHECK (executor_type IN ('claude_sdk', 'messages_api', 'external')) NOT VALID"
    )
    op.execute("COMMENT ON COLUMN billing_receipts.executor_type IS 'claude_sdk, messages_api or external'")
