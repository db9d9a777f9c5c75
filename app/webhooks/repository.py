"""SQL for webhooks and their deliveries, as their account reads and changes them."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import and_, delete, func, insert, select, update
from sqlalchemy.engine import RowMapping

from app.ids import AccountId, new_uuid
from app.platform.db import Reader, Transaction, page_of
from app.platform.pagination import PageRequest
from app.webhooks.records import Delivery, DisabledReason, Registration, Webhook
from app.webhooks.tables import webhook_deliveries, webhooks

_deliveries = webhook_deliveries.c


async def insert_webhook(
    tx: Transaction, account_id: AccountId, registration: Registration, *, secret: str
) -> Webhook:
    statement = (
        insert(webhooks)
        .values(asdict(registration) | {"events": list(registration.events)})
        .values(id=new_uuid(), account_id=account_id, secret=secret, created_at=func.now())
        .returning(*_WEBHOOK)
    )
    return _webhook((await tx.execute(statement)).mappings().one())


async def find_webhooks(reader: Reader, account_id: AccountId) -> list[Webhook]:
    """An account's webhooks, newest first."""
    statement = (
        select(*_WEBHOOK)
        .where(webhooks.c.account_id == account_id)
        .order_by(webhooks.c.created_at.desc(), webhooks.c.id.desc())
    )
    return [_webhook(row) for row in (await reader.execute(statement)).mappings()]


async def find_webhook(reader: Reader, account_id: AccountId, webhook_id: UUID) -> Webhook | None:
    """The account's webhook with this id."""
    found = await reader.execute(select(*_WEBHOOK).where(_is(account_id, webhook_id)))
    row = found.mappings().one_or_none()
    return None if row is None else _webhook(row)


async def lock_webhook(tx: Transaction, account_id: AccountId, webhook_id: UUID) -> Webhook | None:
    """The account's webhook, locked until the transaction ends."""
    # Not the strongest lock: triggers skip rows with that lock, as if they were being deleted.
    found = await tx.execute(
        select(*_WEBHOOK).where(_is(account_id, webhook_id)).with_for_update(key_share=True)
    )
    row = found.mappings().one_or_none()
    return None if row is None else _webhook(row)


async def update_webhook(tx: Transaction, webhook_id: UUID, changed: Mapping[str, object]) -> Webhook:
    statement = update(webhooks).where(webhooks.c.id == webhook_id).values(changed).returning(*_WEBHOOK)
    return _webhook((await tx.execute(statement)).mappings().one())


async def disable_webhook(tx: Transaction, webhook_id: UUID, reason: DisabledReason) -> bool:
    """Disable a webhook and cancel its pending deliveries; False if it was disabled already."""
    disabled = await tx.execute(
        update(webhooks)
        .where(webhooks.c.id == webhook_id, webhooks.c.enabled)
        .values(enabled=False, disabled_reason=reason, disabled_at=func.now())
    )
    await tx.execute(
        update(webhook_deliveries)
        .where(_deliveries.webhook_id == webhook_id, _deliveries.status == "pending")
        .values(status="cancelled")
    )
    return bool(disabled.rowcount)


async def delete_webhook(tx: Transaction, account_id: AccountId, webhook_id: UUID) -> bool:
    """Delete a webhook and its deliveries; False if there is no such webhook."""
    return bool((await tx.execute(delete(webhooks).where(_is(account_id, webhook_id)))).rowcount)


async def find_deliveries(reader: Reader, webhook_id: UUID, page: PageRequest) -> list[Delivery]:
    """A page of a webhook's deliveries, newest first."""
    of_webhook = select(*_DELIVERY).where(_deliveries.webhook_id == webhook_id)
    statement = page_of(of_webhook, page, at=_deliveries.created_at, id_=_deliveries.id)
    return [Delivery(**row) for row in (await reader.execute(statement)).mappings()]


async def replay_delivery(tx: Transaction, webhook_id: UUID, delivery_id: UUID) -> Delivery | None:
    """Start a delivery again from its first attempt, whatever its status; None if there is none."""
    statement = (
        update(webhook_deliveries)
        .where(_deliveries.webhook_id == webhook_id, _deliveries.id == delivery_id)
        .values(_RESET)
        .returning(*_DELIVERY)
    )
    row = (await tx.execute(statement)).mappings().one_or_none()
    return None if row is None else Delivery(**row)


async def replay_failed(tx: Transaction, webhook_id: UUID, *, since: datetime, until: datetime | None) -> int:
    """Start deliveries created in this window again if they failed or were cancelled; returns how many."""
    statement = update(webhook_deliveries).where(
        _deliveries.webhook_id == webhook_id,
        _deliveries.status.in_(["failed", "cancelled"]),
        _deliveries.created_at >= since,
    )
    if until is not None:
        statement = statement.where(_deliveries.created_at < until)
    return (await tx.execute(statement.values(_RESET))).rowcount


_WEBHOOK = tuple(webhooks.c[field.name] for field in fields(Webhook))
_DELIVERY = tuple(_deliveries[field.name] for field in fields(Delivery))
_RESET: dict[str, Any] = {
    "status": "pending",
    "attempts": 0,
    "next_attempt_at": func.now(),
    "delivered_at": None,
}


def _is(account_id: AccountId, webhook_id: UUID) -> Any:
    return and_(webhooks.c.account_id == account_id, webhooks.c.id == webhook_id)


def _webhook(row: RowMapping) -> Webhook:
    return Webhook(**{**row, "events": tuple(row["events"])})
