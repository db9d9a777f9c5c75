"""notify of budgets that wait for a person."""

from alembic import op

revision: str = "5d0c8b17f3a2"
down_revision: str | None = "a94f7be20d63"
compatibility: str = "expand"


def upgrade() -> None:
    """Apply while older servers may still run: they store no call of this kind."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("COMMENT ON COLUMN run_waits.kind IS 'permission, question, client_tool or budget'")
    op.execute(
        "CREATE TRIGGER webhooks_hear_of_budgets AFTER INSERT ON run_waits FOR EACH ROW"
        " WHEN (NEW.kind = 'budget') EXECUTE FUNCTION webhooks_hear_of_approvals()"
    )
