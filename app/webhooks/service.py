"""Webhooks: an account's webhooks and their deliveries."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from app.errors import Conflict, Invalid, NotFound
from app.ids import AccountId
from app.platform.db import Database, Reader, Transaction
from app.platform.pagination import PageRequest
from app.platform.postgres.statements import serialize
from app.platform.ssrf_guard import AddressPolicy, AddressRefused, NameNotFound, UrlRefused
from app.webhooks import repository
from app.webhooks.delivery_repository import find_backlog, name_by_hash_in_deliveries
from app.webhooks.message import EVENTS, WebhookEvent, WebhookFormat, delivery_id, mint_secret
from app.webhooks.records import Delivery, DeliveryBacklog, Registration, Webhook

MAX_WEBHOOKS = 20
"""Per account: each event is stored once for each of its webhooks."""

BACKLOG_LIMIT = 10_000
"""How many deliveries are counted for the metrics."""

_RESOLVE_TIMEOUT_S = 2.0


async def erase_from_deliveries(tx: Transaction, account_id: AccountId, end_user: str, hash_: str) -> None:
    """Replace an end user by its hash in what was delivered and will be."""
    await name_by_hash_in_deliveries(tx, account_id, end_user, hash_)


class WebhookNotFound(NotFound):
    """This account has no webhook with this id."""

    code = "webhook_not_found"


class DeliveryNotFound(NotFound):
    """This webhook has no delivery with this id."""

    code = "delivery_not_found"


class TooManyWebhooks(Conflict):
    """This account has the maximum number of webhooks; delete one first."""

    code = "too_many_webhooks"


class WebhookIsDisabled(Conflict):
    """This webhook is disabled; enable it first."""

    code = "webhook_disabled"


class Webhooks:
    """Registers, changes and lists webhooks and replays deliveries, of one account at a time."""

    def __init__(self, database: Database, addresses: AddressPolicy) -> None:
        self._database = database
        self._addresses = addresses

    async def backlog(self) -> DeliveryBacklog:
        """What is to be delivered, of all accounts: at most `BACKLOG_LIMIT` are counted."""
        async with self._database.read() as reader:
            return await find_backlog(reader, limit=BACKLOG_LIMIT)

    async def register(
        self, account_id: AccountId, registration: Registration, *, token: str | None = None
    ) -> tuple[Webhook, str]:
        """Create a webhook; returns it and its secret, which cannot be retrieved later.

        `token` is the secret of a receiver that expects one of its own. Raises `Invalid` naming a field, and
        `TooManyWebhooks`.
        """
        registration.check()
        secret = _secret_for(registration.format, token)
        await self.check_url(registration.url)
        new = replace(registration, events=_sorted_events(registration.events))
        async with self._database.transaction() as tx:
            await serialize(tx, "webhooks", account_id)
            if len(await repository.find_webhooks(tx, account_id)) >= MAX_WEBHOOKS:
                raise TooManyWebhooks
            return await repository.insert_webhook(tx, account_id, new, secret=secret), secret

    async def list_webhooks(self, account_id: AccountId) -> list[Webhook]:
        """An account's webhooks, newest first; they always fit on one page."""
        async with self._database.snapshot() as reader:
            return await repository.find_webhooks(reader, account_id)

    async def get(self, account_id: AccountId, webhook_id: str) -> Webhook:
        """One webhook; raises `WebhookNotFound`."""
        async with self._database.snapshot() as reader:
            return await _require_webhook(reader, account_id, webhook_id)

    async def change(
        self, account_id: AccountId, webhook_id: str, change: Callable[[Registration], Registration]
    ) -> Webhook:
        """Change a webhook; `change` gets its current properties. Call `check_url` for a new URL first.

        Disabling cancels pending deliveries. Raises `WebhookNotFound`, and whatever `change` raises.
        """
        async with self._database.transaction() as tx:
            webhook = await _lock_webhook(tx, account_id, webhook_id)
            registration = change(webhook)
            registration.check()
            if registration.url != webhook.url and webhook.format != "runtally":
                # A key that may change a webhook would receive its token, which is of another system.
                raise Invalid.field("url", f"cannot be changed in the format {webhook.format}: register anew")
            if webhook.enabled and not registration.enabled:
                await repository.disable_webhook(tx, webhook.id, "by_request")
            columns: dict[str, object] = {
                "url": registration.url,
                "events": list(_sorted_events(registration.events)),
                "description": registration.description,
            }
            if registration.enabled and not webhook.enabled:
                columns |= {
                    "enabled": True,
                    "disabled_reason": None,
                    "disabled_at": None,
                    "failing_since": None,
                }
            return await repository.update_webhook(tx, webhook.id, columns)

    async def rotate_secret(
        self, account_id: AccountId, webhook_id: str, *, token: str | None = None
    ) -> tuple[Webhook, str]:
        """Replace the secret with immediate effect, by `token` if the receiver expects one of its own.

        Raises `WebhookNotFound`, and `Invalid` naming `secret`.
        """
        async with self._database.transaction() as tx:
            webhook = await _lock_webhook(tx, account_id, webhook_id)
            secret = _secret_for(webhook.format, token)
            return await repository.update_webhook(tx, webhook.id, {"secret": secret}), secret

    async def delete(self, account_id: AccountId, webhook_id: str) -> None:
        """Delete a webhook and its deliveries; raises `WebhookNotFound`."""
        async with self._database.transaction() as tx:
            if not await repository.delete_webhook(tx, account_id, _uuid(webhook_id)):
                raise WebhookNotFound

    async def deliveries(
        self, account_id: AccountId, webhook_id: str, page: PageRequest
    ) -> tuple[list[Delivery], str | None]:
        """Deliveries, newest first, and the cursor of the next page; raises `WebhookNotFound`."""
        async with self._database.snapshot() as reader:
            webhook = await _require_webhook(reader, account_id, webhook_id)
            found = await repository.find_deliveries(reader, webhook.id, page)
        return page.cut(found, lambda delivery: (delivery.created_at, delivery.id))

    async def replay(self, account_id: AccountId, webhook_id: str, delivery: str) -> Delivery:
        """Deliver again, with the same id and payload.

        Raises `WebhookNotFound`, `DeliveryNotFound` and `WebhookIsDisabled`.
        """
        async with self._database.transaction() as tx:
            webhook = await _lock_enabled_webhook(tx, account_id, webhook_id)
            named = delivery_id(delivery)
            replayed = None if named is None else await repository.replay_delivery(tx, webhook.id, named)
            if replayed is None:
                raise DeliveryNotFound
            return replayed

    async def replay_failed(
        self, account_id: AccountId, webhook_id: str, *, since: datetime, until: datetime | None
    ) -> int:
        """Deliver again what failed or was cancelled; returns how many deliveries.

        `since` is inclusive, `until` exclusive. Raises `WebhookNotFound`, `WebhookIsDisabled`, and
        `Invalid` for an empty window.
        """
        if until is not None and since >= until:
            raise Invalid.field("to", "must be later than from")
        async with self._database.transaction() as tx:
            webhook = await _lock_enabled_webhook(tx, account_id, webhook_id)
            return await repository.replay_failed(tx, webhook.id, since=since, until=until)

    async def check_url(self, url: str) -> None:
        """Raise `Invalid` naming `url` if it can never be called.

        A host without an address is accepted: the address is checked again at every attempt.
        """
        try:
            async with asyncio.timeout(_RESOLVE_TIMEOUT_S):
                await self._addresses.resolve(self._addresses.check_url(url))
        except UrlRefused as error:
            raise Invalid.field("url", str(error)) from error
        except AddressRefused as error:
            raise Invalid.field("url", "must lead to a public address") from error
        except (NameNotFound, TimeoutError):
            return


def _secret_for(format_: WebhookFormat, token: str | None) -> str:
    """The secret of a webhook: the receiver's token, or a new one that signs."""
    if format_ == "runtally":
        if token is not None:
            raise Invalid.field("secret", "is only for the formats cloudevents and stripe")
        return mint_secret()
    if token is None:
        raise Invalid.field("secret", f"is needed in the format {format_}: what the receiver accepts")
    return token


def _sorted_events(events: Sequence[WebhookEvent]) -> tuple[WebhookEvent, ...]:
    """Each event once, in the documented order."""
    return tuple(event for event in EVENTS if event in events)


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise WebhookNotFound from error


async def _require_webhook(reader: Reader, account_id: AccountId, webhook_id: str) -> Webhook:
    webhook = await repository.find_webhook(reader, account_id, _uuid(webhook_id))
    if webhook is None:
        raise WebhookNotFound
    return webhook


async def _lock_webhook(tx: Transaction, account_id: AccountId, webhook_id: str) -> Webhook:
    webhook = await repository.lock_webhook(tx, account_id, _uuid(webhook_id))
    if webhook is None:
        raise WebhookNotFound
    return webhook


async def _lock_enabled_webhook(tx: Transaction, account_id: AccountId, webhook_id: str) -> Webhook:
    webhook = await _lock_webhook(tx, account_id, webhook_id)
    if not webhook.enabled:
        raise WebhookIsDisabled
    return webhook
