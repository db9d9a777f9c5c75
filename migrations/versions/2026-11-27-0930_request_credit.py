"""request credit: tell webhooks when little is left of a prepaid account."""

import sqlalchemy as sa
from alembic import op

revision: str = "3f8d1b6ae052"
down_revision: str | None = "c07a4de81b35"
compatibility: str = "expand"

_COLUMNS = (
    ("top_up_below", sa.BigInteger(), "More credit is requested below it; null: never"),
    ("top_up_credits", sa.BigInteger(), "How much is requested"),
    ("top_up_per_day", sa.SmallInteger(), "How often a day (UTC) at most"),
    ("top_up_requested_at", sa.DateTime(timezone=True), "For the last time"),
    ("top_ups_that_day", sa.SmallInteger(), "How often it was requested on that day"),
    ("top_up_open", sa.Boolean(), "Whether no credit was added since"),
)

# A request that no credit has followed is repeated on another day only.
_REQUEST = """
CREATE FUNCTION request_top_up() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    asked constant timestamptz := clock_timestamp();
    added constant bigint := NEW.granted + NEW.adjusted;
    same_day constant boolean :=
        (NEW.top_up_requested_at AT TIME ZONE 'UTC')::date = (asked AT TIME ZONE 'UTC')::date;
BEGIN
    IF added > OLD.granted + OLD.adjusted THEN
        NEW.top_up_open := false;
    END IF;
    IF added - NEW.spent >= NEW.top_up_below
        OR same_day AND (NEW.top_up_open OR NEW.top_ups_that_day >= NEW.top_up_per_day) THEN
        RETURN NEW;
    END IF;
    NEW.top_ups_that_day := CASE WHEN same_day THEN NEW.top_ups_that_day + 1 ELSE 1 END;
    NEW.top_up_requested_at := asked;
    NEW.top_up_open := true;
    INSERT INTO webhook_deliveries (webhook_id, event, payload)
    SELECT webhook.id, 'credit.topup_requested', json_build_object(
               'type', 'credit.topup_requested',
               'timestamp', webhook_time(asked),
               'data', json_build_object(
                   'reference', reference,
                   'account', account.name,
                   'amountUsd', (NEW.top_up_credits / 10000000.0)::numeric(30, 10)::text,
                   'belowUsd', (NEW.top_up_below / 10000000.0)::numeric(30, 10)::text,
                   'leftUsd', ((added - NEW.spent) / 10000000.0)::numeric(30, 10)::text))
      FROM concat('topup-', gen_random_uuid()) AS reference, accounts AS account, webhooks AS webhook
     WHERE account.id = NEW.account_id AND webhook.account_id = NEW.account_id AND webhook.enabled
       AND 'credit.topup_requested' = ANY (webhook.events)
       FOR KEY SHARE OF webhook SKIP LOCKED;
    RETURN NEW;
END
$$
"""

_TRIGGER = """
CREATE TRIGGER request_top_up BEFORE UPDATE ON credit_accounts FOR EACH ROW
WHEN (NEW.mode = 'prepaid' AND NEW.top_up_below IS NOT NULL)
EXECUTE FUNCTION request_top_up()
"""


def upgrade() -> None:
    """Apply while older servers may still run: what they charge is seen by the trigger, too."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    for name, type_, comment in _COLUMNS:
        op.add_column("credit_accounts", sa.Column(name, type_, nullable=True, comment=comment))
    op.execute(_REQUEST)
    op.execute(_TRIGGER)
