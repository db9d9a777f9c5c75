"""Whatever happens leaves one delivery for each webhook that listens, in the same transaction."""

import asyncio
import json
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import text

from app.auth.records import KeyRecord
from app.billing.budgets.service import Budgets
from app.billing.credit.ledger import CreditLedger
from app.billing.prices.price_list import PriceList
from app.billing.receipts.delivery import ReceiptDelivery
from app.billing.receipts.journal import Journal
from app.billing.receipts.queue import ReceiptQueue
from app.ids import RunId, RunKey, new_uuid
from app.platform.db import Database
from app.runs.records import NewRun
from app.runs.repository import finish_run
from tests.factories import a_budget, a_fact, a_final, an_account
from tests.integration import webhook_seam
from tests.integration.run_process import insert
from tests.integration.statements import execute, rows, scalar
from tests.patience import PATIENCE_S


async def a_run(database: Database, key: KeyRecord, final: dict[str, Any], run_id: str = "run-1") -> None:
    """A run from its row to its end."""
    run = RunKey(key.account_id, RunId(run_id))
    new = NewRun(run, key.id, "claude_agents:assistant", "claude-sonnet-4-6", "{}", "", b"", None, new_uuid())
    async with database.transaction() as tx:
        await insert(tx, new)
    for _ in range(2):
        async with database.transaction() as tx:
            await finish_run(tx, run, attempt=0, final=a_final(run_id, **final), report=None, events=[])


async def thresholds(database: Database) -> list[tuple[str, int]]:
    """Limit and percent of the reports about budgets, in order."""
    sent = [payload["data"] for payload in await webhook_seam.payloads(database)]
    return [(data["limit"], data["percent"]) for data in sent if "percent" in data]


async def test_a_receipt_is_sent_once_however_often_it_is_delivered(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    webhook, _ = await webhook_seam.register(database, key)
    fact = a_fact(key)
    journal = Journal(tmp_path / "journal", new_uuid())
    queues = [ReceiptQueue(journal, PriceList()) for _ in range(3)]
    for queue in queues * 3:
        queue.record(fact)
        await ReceiptDelivery(database, queue).aclose()
    journal.close()

    (delivery,) = await webhook_seam.deliveries(database, webhook)
    (payload,) = await webhook_seam.payloads(database)
    (receipt,) = await rows(database, "SELECT * FROM charge_receipts")

    assert (delivery.event, delivery.status, delivery.attempts) == ("receipt.created", "pending", 0)
    created_at = receipt.created_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert payload == {
        "type": "receipt.created",
        "timestamp": created_at,
        "data": {
            "id": str(receipt.id),
            "sourceReference": "run-1/0/msg_1",
            "runId": "run-1",
            "attempt": 0,
            "usageUnitId": "msg_1",
            "graphId": "claude_agents:assistant",
            "model": "claude-sonnet-4-6",
            "inputTokens": 1000,
            "outputTokens": 100,
            "cacheReadTokens": 0,
            "cacheWrite5mTokens": 0,
            "cacheWrite1hTokens": 0,
            "webSearchRequests": 0,
            "costUsd": "0.0045000000",
            "chargedCredits": 45_000,
            "basis": "final",
            "origin": "assistant",
            "endUser": None,
            "tags": None,
            "usedAt": receipt.used_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "createdAt": created_at,
        },
    }


async def test_only_subscribed_webhooks_get_an_event(database: Database, key: KeyRecord) -> None:
    listening = [(await webhook_seam.register(database, key))[0] for _ in range(2)]
    unsubscribed, _ = await webhook_seam.register(database, key, events=["run.completed"])
    foreign, _ = await webhook_seam.register(database, await an_account(database, "other"))
    disabled, _ = await webhook_seam.register(database, key)
    await execute(
        database,
        "UPDATE webhooks SET enabled = false, disabled_at = now(), disabled_reason = 'gone' WHERE id = :id",
        id=disabled.id,
    )

    await webhook_seam.charge(database, key, *(f"msg_{number}" for number in range(25)))

    for webhook in listening:
        assert len(await webhook_seam.deliveries(database, webhook)) == 25
    for webhook in (unsubscribed, foreign, disabled):
        assert await webhook_seam.deliveries(database, webhook) == []


async def test_a_rolled_back_change_is_not_sent(database: Database, key: KeyRecord) -> None:
    await webhook_seam.register(database, key)

    async def change_ones_mind() -> None:
        async with database.transaction() as tx:
            await webhook_seam.charge_within(tx, key, "msg_1")
            assert (await tx.execute(text("SELECT count(*) FROM webhook_deliveries"))).scalar_one() == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await change_ones_mind()

    assert await webhook_seam.payloads(database) == []


async def test_deleting_a_webhook_blocks_no_receipt(database: Database, key: KeyRecord) -> None:
    webhook, _ = await webhook_seam.register(database, key)

    async with database.transaction() as tx:
        await tx.execute(text("DELETE FROM webhooks WHERE id = :id"), {"id": webhook.id})
        async with asyncio.timeout(PATIENCE_S):
            await webhook_seam.charge(database, key, "msg_1")

    assert await webhook_seam.payloads(database) == []
    assert await scalar(database, "SELECT count(*) FROM charge_receipts") == 1


async def test_receipts_and_deletions_do_not_deadlock(database: Database, key: KeyRecord) -> None:
    async def come_and_go() -> None:
        for _ in range(15):
            webhook, _ = await webhook_seam.register(database, key)
            await webhook_seam.webhooks_over(database).delete(key.account_id, str(webhook.id))

    async def spend(name: str) -> None:
        for number in range(30):
            await webhook_seam.charge(database, key, f"{name}_{number}")

    await asyncio.gather(come_and_go(), come_and_go(), spend("a"), spend("b"))

    assert await scalar(database, "SELECT count(*) FROM charge_receipts") == 60


async def test_the_end_of_a_run_is_sent_once(database: Database, key: KeyRecord) -> None:
    await webhook_seam.register(database, key)

    await a_run(database, key, {"content": "secret answer"})

    (payload,) = await webhook_seam.payloads(database)
    data = payload["data"]
    assert payload["type"] == "run.completed"
    assert payload["timestamp"] == data["endedAt"]
    assert data["createdAt"] <= data["endedAt"]
    assert {name: data[name] for name in data if not name.endswith("At")} == {
        "runId": "run-1",
        "graphId": "claude_agents:assistant",
        "model": "claude-sonnet-4-6",
        "status": "succeeded",
        "error": None,
        "finishReason": "stop",
        "attempt": 0,
        "endUser": None,
        "tags": None,
    }
    assert "secret answer" not in json.dumps(payload)


@pytest.mark.parametrize(
    ("error", "reason", "status"),
    [
        ("internal", "error", "failed"),
        ("aborted", "aborted", "cancelled"),
        ("rate_limit", "budget", "failed"),
    ],
)
async def test_a_run_that_ended_without_an_answer_has_failed(
    database: Database, key: KeyRecord, error: str, reason: str, status: str
) -> None:
    await webhook_seam.register(database, key)

    await a_run(database, key, {"error": error, "finish_reason": reason})

    (payload,) = await webhook_seam.payloads(database)
    sent = [payload["data"][name] for name in ("error", "finishReason", "status")]
    assert (payload["type"], sent) == ("run.failed", [error, reason, status])


@pytest.mark.parametrize(
    "content",
    [
        "a\x00b",
        r"\ud800 and \u0000, spelled out",
        '\\u0000 and \\" and \\',
        '", "error": "timeout", "finishReason": "budget"',
        "\\\\" * 5 + '"',
        "\N{GRINNING FACE}\n\t\x7f",
    ],
)
async def test_no_answer_of_a_model_can_keep_a_run_from_ending(
    database: Database, key: KeyRecord, content: str
) -> None:
    await webhook_seam.register(database, key)
    output = {content: [content], "error": content}

    await a_run(database, key, {"content": content, "structured_output": output})

    (payload,) = await webhook_seam.payloads(database)
    assert (payload["data"]["error"], payload["data"]["finishReason"]) == (None, "stop")


@pytest_asyncio.fixture
async def ledger(database: Database, key: KeyRecord) -> CreditLedger:
    """The ledger; a webhook of the account listens to its thresholds."""
    await webhook_seam.register(database, key, events=["budget.threshold"])
    return CreditLedger(database)


async def test_a_budget_that_is_reached_is_sent_once_in_each_window(
    database: Database, key: KeyRecord
) -> None:
    await webhook_seam.register(database, key, events=["budget.reached"])
    for mode in ("soft", "hard"):
        await Budgets(database).set_budget(key.account_id, a_budget(id=mode, mode=mode, credits=1000))
    sent = []

    for number, credits_ in enumerate([999, 1, 0, 5000]):
        await webhook_seam.charge(database, key, f"msg_{number}", credits_=credits_)
        sent.append(len(await webhook_seam.payloads(database)))

    assert sent == [0, 2, 2, 2]
    first, second = sorted(
        (each["data"] for each in await webhook_seam.payloads(database)), key=itemgetter("budget")
    )
    assert (first["mode"], second["mode"]) == ("hard", "soft")
    assert second == {
        "budget": "soft",
        "scope": "account",
        "value": None,
        "mode": "soft",
        "tokens": None,
        "usd": "0.0001000000",
        "spentUsd": "0.0001000000",
        "spentTokens": second["spentTokens"],
        "resetsAt": second["resetsAt"],
    }


async def test_concurrent_charges_send_a_reached_budget_once(database: Database, key: KeyRecord) -> None:
    await webhook_seam.register(database, key, events=["budget.reached"])
    await Budgets(database).set_budget(key.account_id, a_budget(credits=1000))

    await asyncio.gather(*(webhook_seam.charge(database, key, f"msg_{n}", credits_=30) for n in range(40)))

    assert len(await webhook_seam.payloads(database)) == 1


async def test_a_budget_that_is_changed_is_sent_again(database: Database, key: KeyRecord) -> None:
    await webhook_seam.register(database, key, events=["budget.reached"])
    budgets, limit = Budgets(database), a_budget(credits=500)
    await webhook_seam.charge(database, key, "msg_1", credits_=500)

    sent = []
    for each in (limit, limit, replace(limit, credits=600), replace(limit, credits=400)):
        await budgets.set_budget(key.account_id, each)
        sent.append(len(await webhook_seam.payloads(database)))

    assert sent == [1, 1, 1, 2]


async def test_low_and_exhausted_prepaid_credit_is_sent(
    database: Database, key: KeyRecord, ledger: CreditLedger
) -> None:
    await ledger.change_mode(key.account_id, "prepaid")
    await ledger.grant(key.account_id, 1000)

    for number, credits_ in enumerate([799, 1, 199, 1, 50]):
        await webhook_seam.charge(database, key, f"msg_{number}", credits_=credits_)
    assert await thresholds(database) == [("credit", 80), ("credit", 100)]

    # What is granted now counts for itself: 950 are left of 950.
    await ledger.grant(key.account_id, 1000)
    await webhook_seam.charge(database, key, "msg_more", credits_=760)
    await ledger.adjust(key.account_id, -190)

    assert await thresholds(database) == [("credit", 80), ("credit", 100)] * 2


async def test_reservations_and_unlimited_accounts_reach_no_threshold(
    database: Database, key: KeyRecord, ledger: CreditLedger
) -> None:
    await ledger.grant(key.account_id, 1000)
    await webhook_seam.charge(database, key, "msg_1", credits_=5000)
    await Budgets(database).set_budget(key.account_id, a_budget(credits=10**6))
    async with database.transaction() as tx:
        await ledger.reserve(tx, RunKey(key.account_id, RunId("run-1")), 900_000)

    assert await webhook_seam.payloads(database) == []
