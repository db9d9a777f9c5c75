"""SQL for the delivery worker: claim due deliveries, record results, delete old ones."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import and_, func, select, text, update

from app.ids import AccountId
from app.platform.db import Reader, Transaction
from app.webhooks.records import ClaimedDelivery, DeliveryBacklog
from app.webhooks.retries import ReceiverResponse
from app.webhooks.tables import webhook_deliveries, webhooks

_deliveries = webhook_deliveries.c


_CLAIM = text(
    """
    WITH RECURSIVE waiting (webhook_id) AS (
        (SELECT webhook_id FROM webhook_deliveries WHERE status = 'pending' ORDER BY webhook_id LIMIT 1)
        UNION ALL
        SELECT (SELECT webhook_id FROM webhook_deliveries
                 WHERE status = 'pending' AND webhook_id > waiting.webhook_id ORDER BY webhook_id LIMIT 1)
          FROM waiting WHERE waiting.webhook_id IS NOT NULL
    ), of_each_account AS (
        SELECT DISTINCT ON (webhook.account_id)
               due.id, due.next_attempt_at, webhook.account_id, webhook.url, webhook.secret,
               webhook.format, webhook.event_type, webhook.subject
          FROM waiting JOIN webhooks AS webhook ON webhook.id = waiting.webhook_id
         CROSS JOIN LATERAL (
             SELECT id, next_attempt_at FROM webhook_deliveries
              WHERE webhook_id = webhook.id AND status = 'pending' AND next_attempt_at <= now()
              ORDER BY next_attempt_at LIMIT 1 FOR UPDATE SKIP LOCKED
         ) AS due
         WHERE webhook.enabled
           AND webhook.id <> ALL (CAST(:excluded_webhooks AS uuid[]))
           AND webhook.account_id <> ALL (CAST(:excluded_accounts AS uuid[]))
         ORDER BY webhook.account_id, due.next_attempt_at
    ), taken AS (
        SELECT * FROM of_each_account ORDER BY next_attempt_at LIMIT :limit
    )
    UPDATE webhook_deliveries AS delivery
       SET attempts = attempts + 1, next_attempt_at = clock_timestamp() + CAST(:lease AS interval)
      FROM taken WHERE delivery.id = taken.id
    RETURNING delivery.id, delivery.webhook_id, taken.account_id, taken.url, taken.secret, taken.format,
              taken.event_type, taken.subject, delivery.payload, delivery.attempts,
              delivery.next_attempt_at AS claimed_until
    """
)
"""At most one delivery of each account, the longest due first, so a backlog delays only its own account.

The recursive query jumps from webhook to webhook in the index of pending deliveries, so a backlog does not
slow it down.
"""

_NAME_BY_HASH = text(
    """
    UPDATE webhook_deliveries AS delivery
       SET payload = jsonb_set(payload::jsonb, ARRAY['data', name.path], to_jsonb(CAST(:hash AS text)))::json
      -- Webhooks before their deliveries, like all that changes several.
      FROM (SELECT id FROM webhooks WHERE account_id = :account_id ORDER BY id FOR NO KEY UPDATE) AS webhook,
           (VALUES ('receipt.created', 'endUser'), ('run.completed', 'endUser'), ('run.failed', 'endUser'),
                   ('approval.requested', 'endUser'), ('budget.reached', 'value')) AS name (event, path)
     WHERE delivery.webhook_id = webhook.id
       AND delivery.event = name.event AND delivery.payload -> 'data' ->> name.path = :end_user
       AND (name.path = 'endUser' OR delivery.payload -> 'data' ->> 'scope' = 'endUser')
    """
)

_DELETE_OLD = text(
    """
    DELETE FROM webhook_deliveries WHERE id IN (
        SELECT old.id FROM webhooks AS webhook CROSS JOIN LATERAL (
            SELECT id FROM webhook_deliveries
             WHERE webhook_id = webhook.id AND created_at < least(now(), :until) - CAST(:age AS interval)
             ORDER BY created_at LIMIT :limit FOR UPDATE SKIP LOCKED
        ) AS old LIMIT :limit
    )
    """
)

_BRING_FORWARD = text(
    """
    UPDATE webhook_deliveries SET next_attempt_at = now() WHERE id IN (
        SELECT id FROM webhook_deliveries
         WHERE status = 'pending' AND next_attempt_at > now() + CAST(:longest AS interval)
           FOR UPDATE SKIP LOCKED
    )
    """
)


_BACKLOG = text(
    """
    SELECT count(*) AS pending,
           coalesce(greatest(0, extract(epoch FROM now() - min(created_at))), 0) AS oldest_s,
           coalesce(greatest(0, extract(epoch FROM now() - min(next_attempt_at))), 0) AS overdue_s
      FROM (SELECT created_at, next_attempt_at FROM webhook_deliveries WHERE status = 'pending' LIMIT :limit)
           AS first
    """
)


async def claim_due_deliveries(
    tx: Transaction,
    *,
    limit: int,
    lease: timedelta,
    excluded_webhooks: Sequence[UUID],
    excluded_accounts: Sequence[AccountId],
) -> list[ClaimedDelivery]:
    """Claim due deliveries for the time of the lease, except those of excluded webhooks and accounts."""
    values = {
        "limit": limit,
        "lease": lease,
        "excluded_webhooks": list(excluded_webhooks),
        "excluded_accounts": list(excluded_accounts),
    }
    return [ClaimedDelivery(**row) for row in (await tx.execute(_CLAIM, values)).mappings()]


async def record_delivered(tx: Transaction, claimed: ClaimedDelivery, response: ReceiverResponse) -> None:
    """Mark as delivered, unless the claim has expired: then the next claim decides."""
    await tx.execute(
        update(webhooks)
        .where(webhooks.c.id == claimed.webhook_id, webhooks.c.failing_since.is_not(None))
        .values(failing_since=None)
    )
    await tx.execute(
        update(webhook_deliveries)
        .where(_is_claimed(claimed))
        .values(status="delivered", delivered_at=func.now(), last_status=response.status, last_error=None)
    )


async def record_failed_attempt(
    tx: Transaction, claimed: ClaimedDelivery, response: ReceiverResponse, *, retry_in: timedelta
) -> None:
    await _mark_failing(tx, claimed)
    await tx.execute(
        update(webhook_deliveries)
        .where(_is_claimed(claimed))
        .values(
            last_status=response.status,
            last_error=response.problem,
            next_attempt_at=func.clock_timestamp() + retry_in,
        )
    )


async def record_final_failure(tx: Transaction, claimed: ClaimedDelivery, response: ReceiverResponse) -> bool:
    """Store the last failed attempt; False if the claim has expired and another one may be active."""
    # Disabling a webhook locks it before its deliveries; the same order here prevents a deadlock.
    await tx.execute(
        select(webhooks.c.id).where(webhooks.c.id == claimed.webhook_id).with_for_update(key_share=True)
    )
    await _mark_failing(tx, claimed)
    noted = await tx.execute(
        update(webhook_deliveries)
        .where(_is_claimed(claimed))
        .values(status="failed", last_status=response.status, last_error=response.problem)
    )
    return bool(noted.rowcount)


async def has_failed_for(tx: Transaction, webhook_id: UUID, period: timedelta) -> bool:
    """Whether nothing was delivered for this period, beginning with a failure."""
    found = await tx.execute(
        text("SELECT failing_since <= now() - CAST(:period AS interval) FROM webhooks WHERE id = :id"),
        {"period": period, "id": webhook_id},
    )
    return bool(found.scalar_one_or_none())


async def delete_old_deliveries(tx: Transaction, *, age: timedelta, until: datetime, limit: int) -> int:
    """Delete deliveries older than `age`, of any status; returns how many."""
    return (await tx.execute(_DELETE_OLD, {"age": age, "until": until, "limit": limit})).rowcount


async def bring_forward(tx: Transaction, *, longest: timedelta) -> None:
    """Let those be due that are to wait for longer: the database's clock has gone back since."""
    await tx.execute(_BRING_FORWARD, {"longest": longest})


async def find_backlog(reader: Reader, *, limit: int) -> DeliveryBacklog:
    """What is to be delivered; counts and compares at most `limit` deliveries."""
    row = (await reader.execute(_BACKLOG, {"limit": limit})).one()
    return DeliveryBacklog(row.pending, float(row.oldest_s), float(row.overdue_s))


async def _mark_failing(tx: Transaction, claimed: ClaimedDelivery) -> None:
    await tx.execute(
        update(webhooks)
        .where(webhooks.c.id == claimed.webhook_id, webhooks.c.failing_since.is_(None))
        .values(failing_since=func.now())
    )


def _is_claimed(claimed: ClaimedDelivery) -> Any:
    return and_(
        _deliveries.id == claimed.id,
        _deliveries.status == "pending",
        _deliveries.next_attempt_at == claimed.claimed_until,
    )


async def name_by_hash_in_deliveries(
    tx: Transaction, account_id: AccountId, end_user: str, hash_: str
) -> None:
    """Replace an end user by its hash in the deliveries of an account."""
    await tx.execute(_NAME_BY_HASH, {"account_id": account_id, "end_user": end_user, "hash": hash_})
