"""Webhooks of the key's account: where it wants to hear of what."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from app.http.admission.checks import AdmittedRoute, small_body
from app.http.api.webhooks.schemas import (
    DeliveryResponse,
    Replayed,
    ReplayRequest,
    WebhookChange,
    WebhookRequest,
    WebhookResponse,
    WebhookWithSecret,
)
from app.http.dependencies import ReadingWriter, RunReader, ServicesDep
from app.http.schemas import Page
from app.pagination import MAX_PAGE
from app.principal import Principal
from app.webhooks.message import MONEY_EVENTS
from app.webhooks.service import Registration

router = APIRouter(route_class=AdmittedRoute, prefix="/v1/webhooks", tags=["webhooks"])


@router.post("", status_code=201, dependencies=[small_body], summary="Register a webhook")
async def register_webhook(
    body: WebhookRequest, services: ServicesDep, caller: ReadingWriter, response: Response
) -> WebhookWithSecret:
    """The answer holds the signing secret; it is not shown again."""
    wanted = body.registration
    _require_for(caller, wanted)
    webhook, secret = await services.webhooks.register(caller.account_id, wanted)
    response.headers["Location"] = f"/v1/webhooks/{webhook.id}"
    return WebhookWithSecret.with_secret(webhook, secret)


@router.get("", summary="List webhooks")
async def list_webhooks(services: ServicesDep, caller: RunReader) -> Page[WebhookResponse]:
    """Every webhook of the key's account, newest first."""
    found = await services.webhooks.list_webhooks(caller.account_id)
    return Page[WebhookResponse](items=[WebhookResponse.of(webhook) for webhook in found])


@router.get("/{webhookId}", summary="Look up a webhook")
async def get_webhook(
    webhook_id: Annotated[str, Path(alias="webhookId")], services: ServicesDep, caller: RunReader
) -> WebhookResponse:
    """A webhook, without its secret."""
    return WebhookResponse.of(await services.webhooks.get(caller.account_id, webhook_id))


@router.patch("/{webhookId}", dependencies=[small_body], summary="Change a webhook")
async def change_webhook(
    webhook_id: Annotated[str, Path(alias="webhookId")],
    body: WebhookChange,
    services: ServicesDep,
    caller: ReadingWriter,
) -> WebhookResponse:
    """What is left out stays. Disabling cancels what is on its way; enabling begins anew."""
    if body.url is not None:
        await services.webhooks.check_url(body.url)

    def change(webhook: Registration) -> Registration:
        wanted = body.applied_to(webhook)
        if (wanted.url, wanted.events) != (webhook.url, webhook.events):
            _require_for(caller, wanted)
        return wanted

    return WebhookResponse.of(await services.webhooks.change(caller.account_id, webhook_id, change))


@router.delete("/{webhookId}", status_code=204, summary="Delete a webhook")
async def delete_webhook(
    webhook_id: Annotated[str, Path(alias="webhookId")], services: ServicesDep, caller: ReadingWriter
) -> None:
    """A webhook and all its deliveries."""
    await services.webhooks.delete(caller.account_id, webhook_id)


@router.post("/{webhookId}/secret", summary="Rotate the signing secret")
async def rotate_secret(
    webhook_id: Annotated[str, Path(alias="webhookId")], services: ServicesDep, caller: ReadingWriter
) -> WebhookWithSecret:
    """Deliveries are signed with the new secret from now on, also those that are tried again."""
    webhook, secret = await services.webhooks.rotate_secret(caller.account_id, webhook_id)
    return WebhookWithSecret.with_secret(webhook, secret)


@router.get("/{webhookId}/deliveries", summary="List deliveries")
async def list_deliveries(
    webhook_id: Annotated[str, Path(alias="webhookId")],
    services: ServicesDep,
    caller: RunReader,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
    cursor: str | None = None,
) -> Page[DeliveryResponse]:
    """What became of a webhook's deliveries, newest first; kept for 30 days."""
    found, next_cursor = await services.webhooks.deliveries(
        caller.account_id, webhook_id, limit=limit, cursor=cursor
    )
    items = [DeliveryResponse.of(delivery) for delivery in found]
    return Page[DeliveryResponse](items=items, next_cursor=next_cursor)


@router.post("/{webhookId}/deliveries/{deliveryId}/replay", status_code=202, summary="Deliver one again")
async def replay_delivery(
    webhook_id: Annotated[str, Path(alias="webhookId")],
    delivery_id: Annotated[str, Path(alias="deliveryId")],
    services: ServicesDep,
    caller: ReadingWriter,
) -> DeliveryResponse:
    """The same `webhook-id` and payload, from the first attempt, whatever became of it."""
    return DeliveryResponse.of(await services.webhooks.replay(caller.account_id, webhook_id, delivery_id))


@router.post(
    "/{webhookId}/replay",
    status_code=202,
    dependencies=[small_body],
    summary="Deliver again what did not arrive",
)
async def replay_failed(
    webhook_id: Annotated[str, Path(alias="webhookId")],
    body: ReplayRequest,
    services: ServicesDep,
    caller: ReadingWriter,
) -> Replayed:
    """What failed or was cancelled, by when it was created."""
    replayed = await services.webhooks.replay_failed(
        caller.account_id, webhook_id, since=body.since, until=body.until
    )
    return Replayed(replayed=replayed)


def _require_for(caller: Principal, wanted: Registration) -> None:
    """Nobody may have sent somewhere what they may not read."""
    if MONEY_EVENTS & set(wanted.events):
        caller.require("receipts:read")
