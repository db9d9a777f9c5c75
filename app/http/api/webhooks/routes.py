"""Webhooks of the key's account."""

from typing import Annotated, TypeAlias

from fastapi import APIRouter, Path, Response

from app.http.admission.checks import CheckedRoute, optional_body, small_body
from app.http.api.webhooks.schemas import (
    DeliveryResponse,
    NewSecret,
    Replayed,
    ReplayRequest,
    WebhookChange,
    WebhookRequest,
    WebhookResponse,
    WebhookWithSecret,
)
from app.http.dependencies import Location, ReadWriter, RunReader, ServicesDep
from app.http.openapi.headers import LOCATED
from app.http.parameters import UuidPageParams
from app.http.response_model import Page
from app.requests.principal import Principal
from app.webhooks.message import MONEY_EVENTS
from app.webhooks.records import Registration

WebhookId: TypeAlias = Annotated[str, Path(alias="webhookId")]

router = APIRouter(route_class=CheckedRoute, prefix="/v1/webhooks", tags=["webhooks"])


@router.post(
    "", status_code=201, responses={201: LOCATED}, dependencies=[small_body], summary="Register a webhook"
)
async def register_webhook(
    body: WebhookRequest, services: ServicesDep, caller: ReadWriter, response: Response, location: Location
) -> WebhookWithSecret:
    """The response holds the secret; it is not shown again."""
    _require_event_scopes(caller, body.registration)
    webhook, secret = await services.webhooks.register(
        caller.account_id, body.registration, token=body.secret
    )
    response.headers["Location"] = location(f"/v1/webhooks/{webhook.id}")
    return WebhookWithSecret.built_from(webhook, secret=secret)


@router.get("", summary="List webhooks")
async def list_webhooks(services: ServicesDep, caller: RunReader) -> Page[WebhookResponse]:
    """All webhooks of the key's account, newest first."""
    found = await services.webhooks.list_webhooks(caller.account_id)
    return Page[WebhookResponse](items=[WebhookResponse.model_validate(webhook) for webhook in found])


@router.get("/{webhookId}", summary="Look up a webhook")
async def get_webhook(webhook_id: WebhookId, services: ServicesDep, caller: RunReader) -> WebhookResponse:
    """A webhook, without its secret."""
    return WebhookResponse.model_validate(await services.webhooks.get(caller.account_id, webhook_id))


@router.patch("/{webhookId}", dependencies=[small_body], summary="Change a webhook")
async def change_webhook(
    webhook_id: WebhookId, body: WebhookChange, services: ServicesDep, caller: ReadWriter
) -> WebhookResponse:
    """Omitted fields stay unchanged. Disabling cancels pending deliveries; enabling clears failures."""
    if body.url is not None:
        await services.webhooks.check_url(body.url)

    def change(webhook: Registration) -> Registration:
        changed = body.applied_to(webhook)
        if (changed.url, changed.events) != (webhook.url, webhook.events):
            _require_event_scopes(caller, changed)
        return changed

    return WebhookResponse.model_validate(
        await services.webhooks.change(caller.account_id, webhook_id, change)
    )


@router.delete("/{webhookId}", status_code=204, summary="Delete a webhook")
async def delete_webhook(webhook_id: WebhookId, services: ServicesDep, caller: ReadWriter) -> None:
    """Delete a webhook and all its deliveries."""
    await services.webhooks.delete(caller.account_id, webhook_id)


@router.post("/{webhookId}/secret", dependencies=[optional_body], summary="Rotate the secret")
async def rotate_secret(
    webhook_id: WebhookId, services: ServicesDep, caller: ReadWriter, body: NewSecret | None = None
) -> WebhookWithSecret:
    """Make all further attempts with a new secret, also those of earlier deliveries.

    One that signs is made; the token of another system is in the body.
    """
    webhook, secret = await services.webhooks.rotate_secret(
        caller.account_id, webhook_id, token=None if body is None else body.secret
    )
    return WebhookWithSecret.built_from(webhook, secret=secret)


@router.get("/{webhookId}/deliveries", summary="List deliveries")
async def list_deliveries(
    webhook_id: WebhookId, services: ServicesDep, caller: RunReader, page: UuidPageParams
) -> Page[DeliveryResponse]:
    """A webhook's deliveries and their status, newest first; kept for 30 days."""
    found = await services.webhooks.deliveries(caller.account_id, webhook_id, page)
    return Page.of(found, DeliveryResponse.of)


@router.post("/{webhookId}/deliveries/{deliveryId}/replay", status_code=202, summary="Repeat a delivery")
async def replay_delivery(
    webhook_id: WebhookId,
    delivery_id: Annotated[str, Path(alias="deliveryId")],
    services: ServicesDep,
    caller: ReadWriter,
) -> DeliveryResponse:
    """Send the same `webhook-id` and payload again, starting with the first attempt, whatever its status."""
    return DeliveryResponse.of(await services.webhooks.replay(caller.account_id, webhook_id, delivery_id))


@router.post(
    "/{webhookId}/replay",
    status_code=202,
    dependencies=[small_body],
    summary="Repeat failed deliveries",
)
async def replay_failed(
    webhook_id: WebhookId, body: ReplayRequest, services: ServicesDep, caller: ReadWriter
) -> Replayed:
    """Send failed and cancelled deliveries of a period again."""
    replayed = await services.webhooks.replay_failed(
        caller.account_id, webhook_id, since=body.since, until=body.until
    )
    return Replayed(replayed=replayed)


def _require_event_scopes(caller: Principal, changed: Registration) -> None:
    """Raise `ScopeMissing` if the caller may not read what these events contain."""
    if MONEY_EVENTS & set(changed.events):
        caller.require("receipts:read")
