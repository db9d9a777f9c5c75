from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from standardwebhooks import Webhook as Signature
from standardwebhooks import WebhookVerificationError

from app.ids import AccountId
from app.webhooks.message import delivery_id, message_id, mint_secret, sign_message
from app.webhooks.records import ClaimedDelivery

PAYLOAD = {"type": "run.completed", "data": {"runId": "über-1", "costUsd": "0.0045000000"}}


def test_the_signature_is_accepted_by_libraries_of_receivers() -> None:
    secret, delivery = mint_secret(), uuid4()

    message = sign_message(delivery, PAYLOAD, secret, at=datetime.now(UTC))

    assert Signature(secret).verify(message.body, message.headers) == PAYLOAD
    assert message.headers["webhook-id"] == f"msg_{delivery.hex}"
    with pytest.raises(WebhookVerificationError):
        Signature(mint_secret()).verify(message.body, message.headers)
    with pytest.raises(WebhookVerificationError):
        Signature(secret).verify(message.body.replace(b"0.0045", b"0.0001"), message.headers)


def test_a_message_is_the_same_at_every_attempt() -> None:
    secret, delivery = mint_secret(), uuid4()

    first = sign_message(delivery, PAYLOAD, secret, at=datetime(2026, 11, 21, tzinfo=UTC))
    second = sign_message(delivery, PAYLOAD, secret, at=datetime(2026, 11, 22, tzinfo=UTC))

    assert (first.body, first.headers["webhook-id"]) == (second.body, second.headers["webhook-id"])
    assert first.headers["webhook-timestamp"] == "1795219200"
    assert first.headers["webhook-signature"] != second.headers["webhook-signature"]


def test_every_secret_is_new_and_long_enough() -> None:
    secrets = {mint_secret() for _ in range(10)}

    assert len(secrets) == 10
    assert {(secret[:6], len(secret)) for secret in secrets} == {("whsec_", 6 + 44)}


def test_only_message_ids_of_ours_are_parsed() -> None:
    delivery = UUID("0199aaaa-bbbb-4ccc-8ddd-eeeeffff0000")

    assert delivery_id(message_id(delivery)) == delivery
    for text in ("", "msg_", str(delivery), delivery.hex, f"msg_{delivery}", message_id(delivery).upper()):
        assert delivery_id(text) is None


def test_a_secret_is_not_shown_by_accident() -> None:
    claimed = ClaimedDelivery(
        id=uuid4(),
        webhook_id=uuid4(),
        account_id=AccountId(uuid4()),
        url="https://hooks.example/",
        secret="whsec_hidden",
        format="runtally",
        event_type=None,
        subject=None,
        payload=PAYLOAD,
        attempts=1,
        claimed_until=datetime.now(UTC),
    )

    assert "whsec" not in repr(claimed)
