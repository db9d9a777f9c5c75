"""export bills: webhooks in the formats of other tools, and whom a receipt is for."""

import sqlalchemy as sa
from alembic import op

revision: str = "e4b7a1c95d20"
down_revision: str | None = "c41f7d9be026"
compatibility: str = "expand"

# As before, and with endUser, tags and usedAt.
_RECEIPTS = """
CREATE OR REPLACE FUNCTION webhooks_hear_of_receipts() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    charged constant uuid[] := ARRAY(SELECT DISTINCT account_id FROM added);
BEGIN
    IF NOT EXISTS (
        SELECT FROM webhooks WHERE account_id = ANY (charged) AND 'receipt.created' = ANY (events)
    ) THEN
        RETURN NULL;
    END IF;
    INSERT INTO webhook_deliveries (webhook_id, event, payload)
    SELECT webhook.id, 'receipt.created', json_build_object(
               'type', 'receipt.created',
               'timestamp', webhook_time(receipt.created_at),
               'data', json_build_object(
                   'id', receipt.id,
                   'sourceReference', receipt.source_reference,
                   'runId', receipt.run_id,
                   'attempt', receipt.attempt,
                   'usageUnitId', receipt.usage_unit_id,
                   'graphId', receipt.graph_id,
                   'model', receipt.model,
                   'inputTokens', receipt.input_tokens,
                   'outputTokens', receipt.output_tokens,
                   'cacheReadTokens', receipt.cache_read_tokens,
                   'cacheWrite5mTokens', receipt.cache_write_5m_tokens,
                   'cacheWrite1hTokens', receipt.cache_write_1h_tokens,
                   'webSearchRequests', receipt.web_search_requests,
                   'costUsd', receipt.cost_usd::numeric(20, 10)::text,
                   'chargedCredits', receipt.charged_credits,
                   'basis', receipt.basis,
                   'origin', receipt.origin,
                   'endUser', receipt.end_user,
                   'tags', receipt.tags,
                   'usedAt', webhook_time(receipt.used_at),
                   'createdAt', webhook_time(receipt.created_at)))
      FROM added AS receipt JOIN webhooks AS webhook ON webhook.account_id = receipt.account_id
     WHERE webhook.account_id = ANY (charged)
       AND webhook.enabled AND 'receipt.created' = ANY (webhook.events)
       FOR KEY SHARE OF webhook SKIP LOCKED;
    RETURN NULL;
END
$$
"""


def upgrade() -> None:
    """Apply while older servers may still run: they register webhooks of the first format."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "webhooks",
        sa.Column(
            "format",
            sa.Text(),
            nullable=False,
            server_default="runtally",
            comment="runtally, cloudevents or stripe",
        ),
    )
    op.add_column("webhooks", sa.Column("event_type", sa.Text(), comment="The name of each event there"))
    op.add_column("webhooks", sa.Column("subject", sa.Text(), comment="Who is charged there"))
    op.execute(_RECEIPTS)
