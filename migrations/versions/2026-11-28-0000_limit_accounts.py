"""limit what accounts keep, and notify of budgets that refuse calls."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "d2a7c1e0f4b8"
down_revision: str | None = "b7d2f40c9a61"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None
compatibility: str = "expand"


# As before, and also when a hard budget refuses a call that needs more than is left.
_REACHED = """
CREATE OR REPLACE FUNCTION notify_of_reached_budget() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    budget budgets%ROWTYPE;
    reached constant timestamptz := clock_timestamp();
BEGIN
    SELECT * INTO budget FROM budgets WHERE account_id = NEW.account_id AND id = NEW.budget_id;
    IF NEW.refused_at IS NULL
       AND NOT coalesce(NEW.credits >= budget.credits, NEW.tokens >= budget.tokens) THEN
        RETURN NULL;
    END IF;
    UPDATE budget_spending SET reached_at = reached
     WHERE account_id = NEW.account_id AND budget_id = NEW.budget_id
       AND value = NEW.value AND starts_at = NEW.starts_at;
    INSERT INTO webhook_deliveries (webhook_id, event, payload)
    SELECT webhook.id, 'budget.reached', json_build_object(
               'type', 'budget.reached',
               'timestamp', webhook_time(reached),
               'data', json_build_object(
                   'budget', budget.id,
                   'scope', budget.scope,
                   'value', nullif(NEW.value, ''),
                   'mode', budget.mode,
                   'usd', (budget.credits / 10000000.0)::numeric(30, 10)::text,
                   'tokens', budget.tokens,
                   'spentUsd', (NEW.credits / 10000000.0)::numeric(30, 10)::text,
                   'spentTokens', NEW.tokens,
                   'resetsAt', (SELECT webhook_time(resets_at)
                                  FROM budget_window(budget.window, budget.time_zone, NEW.starts_at))))
      FROM webhooks AS webhook
     WHERE webhook.account_id = NEW.account_id AND webhook.enabled
       AND 'budget.reached' = ANY (webhook.events)
       FOR KEY SHARE OF webhook SKIP LOCKED;
    RETURN NULL;
END
$$
"""


def upgrade() -> None:
    """Apply while older servers may still run: they keep everything as by default."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    comment = "Days by kind; null or missing: as by default"
    op.add_column("accounts", sa.Column("retention", JSONB(), comment=comment))
    # A sweep reads only what it deletes, also of one account.
    for part in ("contents", "events"):
        has_some = f"{part}_deleted_at IS NULL AND ended_at IS NOT NULL"
        op.create_index(
            f"ix_runs_of_account_with_{part}",
            "runs",
            ["account_id", "ended_at"],
            postgresql_where=sa.text(has_some),
        )
    op.create_index(
        "ix_run_evidence_first",
        "run_evidence",
        ["account_id", "at"],
        postgresql_where=sa.text("position % 1000000 = 1"),
    )
    comment = "When a call needed more than was left"
    op.add_column("budget_spending", sa.Column("refused_at", sa.DateTime(timezone=True), comment=comment))
    op.execute(_REACHED)
