"""name the end user and the tags of a run in its notifications."""

from alembic import op

revision: str = "8d41f0b7a92e"
down_revision: str | None = "3f8d1b6ae052"
compatibility: str = "expand"

# Each as it was, with the labels of the run.
_RUNS = r"""
CREATE OR REPLACE FUNCTION webhooks_hear_of_runs() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    told constant text := CASE NEW.status WHEN 'succeeded' THEN 'run.completed' ELSE 'run.failed' END;
    final json;
BEGIN
    IF NOT EXISTS (SELECT FROM webhooks WHERE account_id = NEW.account_id AND told = ANY (events)) THEN
        RETURN NULL;
    END IF;
    final := regexp_replace(NEW.final::text, '\\(u[0-9a-fA-F]{4}|.)', 'x', 'g');
    INSERT INTO webhook_deliveries (webhook_id, event, payload)
    SELECT webhook.id, told, json_build_object(
               'type', told,
               'timestamp', webhook_time(NEW.ended_at),
               'data', json_build_object(
                   'runId', NEW.run_id,
                   'graphId', NEW.graph_id,
                   'model', NEW.model,
                   'status', NEW.status,
                   'error', final ->> 'error',
                   'finishReason', final ->> 'finishReason',
                   'attempt', NEW.attempt,
                   'endUser', NEW.end_user,
                   'tags', NEW.tags,
                   'createdAt', webhook_time(NEW.created_at),
                   'endedAt', webhook_time(NEW.ended_at)))
      FROM webhooks AS webhook
     WHERE webhook.account_id = NEW.account_id AND webhook.enabled AND told = ANY (webhook.events)
       FOR KEY SHARE OF webhook SKIP LOCKED;
    RETURN NULL;
END
$$
"""

_APPROVALS = r"""
CREATE OR REPLACE FUNCTION webhooks_hear_of_approvals() RETURNS trigger LANGUAGE plpgsql AS $$
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
                   'endUser', runs.end_user,
                   'tags', runs.tags,
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


def upgrade() -> None:
    """Apply while older servers may still run: their notifications have labels, too."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute(_RUNS)
    op.execute(_APPROVALS)
