"""An account requests more credit when little is left: once, until some was added, and a few times a day."""

import asyncio
from typing import Any

import pytest

from app.auth.records import KeyRecord
from app.billing.credit.ledger import CreditLedger
from app.billing.credit.records import TopUp
from app.platform.db import Database
from app.simulator.script import in_turn
from tests.e2e.stories import WorldOf
from tests.factories import an_account
from tests.integration.statements import execute, scalar
from tests.integration.test_http_budgets import client_of
from tests.integration.webhook_seam import charge, payloads, register

PATH = "/v1/balance/top-up"
TERMS = {"belowUsd": "2", "amountUsd": "20.50", "perDay": 3}


async def requesting(database: Database, key: KeyRecord, *, below: int, per_day: int) -> CreditLedger:
    """A prepaid account with 1000 credits; two of its webhooks listen to requests."""
    for _ in range(2):
        await register(database, key, events=["credit.topup_requested"])
    ledger = CreditLedger(database)
    await ledger.change_mode(key.account_id, "prepaid")
    await ledger.grant(key.account_id, 1000)
    await ledger.set_top_up(key.account_id, TopUp(below, 5000, per_day))
    return ledger


async def references(database: Database) -> list[str]:
    """Of the requests, in order; each webhook has been sent the same ones."""
    sent = [payload["data"]["reference"] for payload in await payloads(database)]
    assert all(sent.count(each) == 2 for each in sent)
    return list(dict.fromkeys(sent))


async def test_credit_is_requested_once_until_some_is_added(database: Database, key: KeyRecord) -> None:
    ledger = await requesting(database, key, below=300, per_day=9)
    sent = []
    for number, credits_ in enumerate([700, 1, 50]):
        await charge(database, key, f"msg_{number}", credits_=credits_)
        sent.append(len(await references(database)))
    # A correction downwards is not what was asked for.
    await ledger.adjust(key.account_id, -1)
    (first,) = await references(database)
    for _ in range(2):
        await ledger.grant(key.account_id, 500, reference=first)
    await charge(database, key, "msg_more", credits_=600)

    assert sent == [0, 1, 1]
    assert len(await references(database)) == 2
    request = (await payloads(database))[0]
    account = await scalar(database, "SELECT name FROM accounts WHERE id = :id", id=key.account_id)
    assert (request["type"], request["data"]) == (
        "credit.topup_requested",
        {
            "reference": first,
            "account": account,
            "amountUsd": "0.0005000000",
            "belowUsd": "0.0000300000",
            "leftUsd": "0.0000299000",
        },
    )


async def test_a_day_has_a_number_of_requests(database: Database, key: KeyRecord) -> None:
    ledger = await requesting(database, key, below=10**6, per_day=2)
    sent = [len(await references(database))]
    # What is granted is never enough.
    for _ in range(3):
        await ledger.grant(key.account_id, 10)
        sent.append(len(await references(database)))
    await execute(
        database, "UPDATE credit_accounts SET top_up_requested_at = top_up_requested_at - interval '1 day'"
    )
    sent.append(len(await references(database)))

    assert sent == [1, 2, 2, 2, 3]


async def test_concurrent_charges_request_credit_once(database: Database, key: KeyRecord) -> None:
    await requesting(database, key, below=900, per_day=9)

    await asyncio.gather(*(charge(database, key, f"msg_{n}", credits_=20) for n in range(40)))

    assert len(await references(database)) == 1


@pytest.mark.parametrize("change", ["postpaid", "unset", "of another account"])
async def test_no_credit_is_requested_without_need(database: Database, key: KeyRecord, change: str) -> None:
    ledger = await requesting(database, key, below=900, per_day=9)
    charged = key
    if change == "postpaid":
        await ledger.change_mode(key.account_id, "postpaid")
    elif change == "unset":
        await ledger.set_top_up(key.account_id, None)
    else:
        charged = await an_account(database, "other")
    await charge(database, charged, "msg", credits_=500)

    assert await references(database) == []


async def test_accounts_and_operators_set_when_credit_is_requested(world_of: WorldOf) -> None:
    world = await world_of(in_turn())
    async with (
        await client_of(world, "acme", "budgets:write", "receipts:read") as acme,
        await client_of(world, "ops", "admin") as ops,
        await client_of(world, "globex", "receipts:read") as reader,
    ):
        before = (await acme.get("/v1/balance")).json()["topUp"]
        own = await acme.put(PATH, json=TERMS)
        shown = (await acme.get("/v1/balance")).json()["topUp"]
        lower = await ops.put(PATH, json={"belowUsd": 1, "amountUsd": 5}, params={"account": "acme"})
        refused = [await reader.put(PATH, json=TERMS), await reader.delete(PATH)]
        foreign = await acme.put(PATH, json=TERMS, params={"account": "ops"})
        deleted = [(await acme.delete(PATH)).status_code for _ in range(2)]
        after = (await acme.get("/v1/balance")).json()["topUp"]
        audited = (await ops.get("/v1/audit", params={"account": "acme"})).json()["items"]

    assert (before, after) == (None, None)
    assert own.json()["topUp"] == shown
    assert shown == {
        "belowUsd": "2.0000000000",
        "amountUsd": "20.5000000000",
        "perDay": 3,
        "requestedAt": None,
    }
    assert (lower.json()["topUp"]["belowUsd"], lower.json()["topUp"]["perDay"]) == ("1.0000000000", 1)
    assert [each.status_code for each in refused] == [403, 403]
    assert (foreign.status_code, foreign.json()["code"]) == (404, "account_not_found")
    assert deleted == [204, 204]
    assert [each["action"] for each in audited].count("credit.top_up_set") == 3


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"belowUsd": "0"}, "belowUsd"),
    ({"belowUsd": None}, "belowUsd"),
    ({"belowUsd": 0.5}, "belowUsd"),
    ({"amountUsd": "-1"}, "amountUsd"),
    ({"amountUsd": "0.00000001"}, "amountUsd"),
    ({"amountUsd": "10000000000"}, "amountUsd"),
    ({"perDay": 0}, "perDay"),
    ({"perDay": 25}, "perDay"),
    ({"perDay": None}, "perDay"),
    ({"every": "day"}, "every"),
]


async def test_terms_that_say_nothing_sensible_name_the_field(world_of: WorldOf) -> None:
    world = await world_of(in_turn())

    for change, field in WRONG:
        response = await world.http.put(PATH, json={**TERMS, **change})

        assert response.status_code == 422, change
        assert [error["field"] for error in response.json()["errors"]] == [field]
    assert (await world.http.get("/v1/balance")).json()["topUp"] is None
