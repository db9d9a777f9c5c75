"""notify of calls that wait for a person, and of batches that have ended."""

from alembic import op

revision: str = "3f8a1c6be052"
down_revision: str | None = "e7a30c5d9b14"
compatibility: str = "expand"

# As for those of runs: no call and no batch may wait for a webhook, or fail because of one.
_APPROVALS = r"""
CREATE FUNCTION webhooks_hear_of_approvals() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM webhooks WHERE account_id = NEW.account_id AND 'approval.requested' = ANY (events)
    ) THEN
        RETURN NULL;
    END IF;
    INSERT INTO webhook_deliveries (webhook_id, event, payload)
    SELECT webhook.id, 'approval.requested', json_build_object(
               'type', 'approval.requested',
               'timestamp', webhook_time(NEW.requested_at),
               'data', json_build_object(
                   'runId', NEW.run_id,
                   'requestId', NEW.call_id,
                   'kind', CASE NEW.kind WHEN 'permission' THEN 'approval' ELSE NEW.kind END,
                   'graphId', runs.graph_id,
                   'stateKey', runs.state_key,
                   'toolName', regexp_replace(NEW.request::text, '\\(u[0-9a-fA-F]{4}|.)', 'x', 'g')::json
                               ->> 'toolName',
                   'expiresAt', webhook_time(NEW.expires_at)))
      FROM webhooks AS webhook JOIN runs ON runs.account_id = NEW.account_id AND runs.run_id = NEW.run_id
     WHERE webhook.account_id = NEW.account_id
       AND webhook.enabled AND 'approval.requested' = ANY (webhook.events)
       FOR KEY SHARE OF webhook SKIP LOCKED;
    RETURN NULL;
END
$$
"""
_APPROVALS_TRIGGER = """
CREATE TRIGGER webhooks_hear_of_approvals
AFTER INSERT ON run_waits FOR EACH ROW WHEN (NEW.kind IN ('permission', 'question'))
EXECUTE FUNCTION webhooks_hear_of_approvals()
"""
_BATCHES = """
CREATE FUNCTION webhooks_hear_of_batches() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO webhook_deliveries (webhook_id, event, payload)
    SELECT webhook.id, 'batch.completed', json_build_object(
               'type', 'batch.completed',
               'timestamp', webhook_time(NEW.ended_at),
               'data', json_build_object(
                   'batchId', NEW.id,
                   'graphId', NEW.graph_id,
                   'items', NEW.items,
                   'succeeded', NEW.succeeded,
                   'failed', NEW.failed,
                   'cancelled', NEW.cancelled,
                   'refused', NEW.refused,
                   'createdAt', webhook_time(NEW.created_at),
                   'endedAt', webhook_time(NEW.ended_at)))
      FROM webhooks AS webhook
     WHERE webhook.account_id = NEW.account_id
       AND webhook.enabled AND 'batch.completed' = ANY (webhook.events)
       FOR KEY SHARE OF webhook SKIP LOCKED;
    RETURN NULL;
END
$$
"""
_BATCHES_TRIGGER = """
CREATE TRIGGER webhooks_hear_of_batches
AFTER UPDATE OF ended_at ON batches FOR EACH ROW
WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL)
EXECUTE FUNCTION webhooks_hear_of_batches()
"""


def upgrade() -> None:
    """Apply while older servers may still run: they subscribe to fewer events, and deliver all."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    # Allows more than before. The server knows which events there are: the next one needs no migration.
    op.execute("ALTER TABLE webhooks DROP CONSTRAINT ck_webhooks_events")
    op.execute(
        "ALTER TABLE webhooks ADD CONSTRAINT ck_webhooks_events CHECK (cardinality(events) > 0) NOT VALID"
    )
    for statement in (_APPROVALS, _APPROVALS_TRIGGER, _BATCHES, _BATCHES_TRIGGER):
        op.execute(statement)
