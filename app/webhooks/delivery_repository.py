"""The SQL of the deliverer: claim what is due, note what became of it, forget what is old."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import and_, func, select, text, update

from app.db import Transaction
from app.ids import AccountId
from app.webhooks.retries import ReceiverResponse
from app.webhooks.tables import webhook_deliveries, webhooks

_deliveries = webhook_deliveries.c


@dataclass(frozen=True, slots=True)
class Claimed:
    """A delivery that nobody else makes until the claim ends."""

    id: UUID
    webhook_id: UUID
    account_id: AccountId
    url: str
    secret: str = field(repr=False)
    payload: Any = field(repr=False)
    attempts: int
    """This one included."""
    until: datetime
    """When the claim ends; also what tells it from a later claim of the same delivery."""


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
               due.id, due.next_attempt_at, webhook.account_id, webhook.url, webhook.secret
          FROM waiting JOIN webhooks AS webhook ON webhook.id = waiting.webhook_id
         CROSS JOIN LATERAL (
             SELECT id, next_attempt_at FROM webhook_deliveries
              WHERE webhook_id = webhook.id AND status = 'pending' AND next_attempt_at <= now()
              ORDER BY next_attempt_at LIMIT 1 FOR UPDATE SKIP LOCKED
         ) AS due
         WHERE webhook.enabled
           AND webhook.id <> ALL (CAST(:busy_webhooks AS uuid[]))
           AND webhook.account_id <> ALL (CAST(:busy_accounts AS uuid[]))
         ORDER BY webhook.account_id, due.next_attempt_at
    ), taken AS (
        SELECT * FROM of_each_account ORDER BY next_attempt_at LIMIT :most
    )
    UPDATE webhook_deliveries AS delivery
       SET attempts = attempts + 1, next_attempt_at = clock_timestamp() + CAST(:for AS interval)
      FROM taken WHERE delivery.id = taken.id
    RETURNING delivery.id, delivery.webhook_id, taken.account_id, taken.url, taken.secret,
              delivery.payload, delivery.attempts, delivery.next_attempt_at
    """
)
"""One delivery of each account at most, the longest due first: a backlog delays only its own account.

It hops from webhook to webhook through the index of what is pending, so a backlog costs nothing here.
"""

_FORGET = text(
    """
    DELETE FROM webhook_deliveries WHERE id IN (
        SELECT old.id FROM webhooks AS webhook CROSS JOIN LATERAL (
            SELECT id FROM webhook_deliveries
             WHERE webhook_id = webhook.id AND created_at < now() - CAST(:age AS interval)
             ORDER BY created_at LIMIT :most FOR UPDATE SKIP LOCKED
        ) AS old LIMIT :most
    )
    """
)


async def claim_due(
    tx: Transaction,
    *,
    most: int,
    lease: timedelta,
    busy_webhooks: Sequence[UUID],
    busy_accounts: Sequence[AccountId],
) -> list[Claimed]:
    """Claim due deliveries for so long, passing over who is busy enough."""
    values = {
        "most": most,
        "for": lease,
        "busy_webhooks": list(busy_webhooks),
        "busy_accounts": list(busy_accounts),
    }
    return [Claimed(*row) for row in await tx.execute(_CLAIM, values)]


async def note_delivered(tx: Transaction, claimed: Claimed, answer: ReceiverResponse) -> None:
    """It has arrived. Where the claim had ended, whoever claimed it since says what becomes of it."""
    await tx.execute(
        update(webhooks)
        .where(webhooks.c.id == claimed.webhook_id, webhooks.c.failing_since.is_not(None))
        .values(failing_since=None)
    )
    await tx.execute(
        update(webhook_deliveries)
        .where(_still(claimed))
        .values(status="delivered", delivered_at=func.now(), last_status=answer.status, last_error=None)
    )


async def note_failed(
    tx: Transaction, claimed: Claimed, answer: ReceiverResponse, *, again_in: timedelta
) -> None:
    """An attempt failed and another follows."""
    await _note_failing(tx, claimed)
    await tx.execute(
        update(webhook_deliveries)
        .where(_still(claimed))
        .values(
            last_status=answer.status,
            last_error=answer.problem,
            next_attempt_at=func.clock_timestamp() + again_in,
        )
    )


async def note_given_up(tx: Transaction, claimed: Claimed, answer: ReceiverResponse) -> bool:
    """The last attempt failed; False when the claim had ended and another may be under way."""
    # Whoever disables a webhook locks it before its deliveries: so does whoever may be about to.
    await tx.execute(
        select(webhooks.c.id).where(webhooks.c.id == claimed.webhook_id).with_for_update(key_share=True)
    )
    await _note_failing(tx, claimed)
    noted = await tx.execute(
        update(webhook_deliveries)
        .where(_still(claimed))
        .values(status="failed", last_status=answer.status, last_error=answer.problem)
    )
    return bool(noted.rowcount)


async def has_failed_for(tx: Transaction, webhook_id: UUID, period: timedelta) -> bool:
    """Whether nothing has arrived since a failure so long ago."""
    found = await tx.execute(
        text("SELECT failing_since <= now() - CAST(:period AS interval) FROM webhooks WHERE id = :id"),
        {"period": period, "id": webhook_id},
    )
    return bool(found.scalar_one_or_none())


async def forget_old(tx: Transaction, *, age: timedelta, most: int) -> int:
    """Delete deliveries of this age, whatever became of them; returns how many."""
    return (await tx.execute(_FORGET, {"age": age, "most": most})).rowcount


async def _note_failing(tx: Transaction, claimed: Claimed) -> None:
    await tx.execute(
        update(webhooks)
        .where(webhooks.c.id == claimed.webhook_id, webhooks.c.failing_since.is_(None))
        .values(failing_since=func.now())
    )


def _still(claimed: Claimed) -> Any:
    return and_(
        _deliveries.id == claimed.id,
        _deliveries.status == "pending",
        _deliveries.next_attempt_at == claimed.until,
    )
