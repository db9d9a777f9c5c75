"""The ledger over HTTP: every change of the credit, and the balance after it."""

import csv
import io
from decimal import Decimal
from typing import Any

import httpx

from app.billing.credit.ledger import usd
from app.billing.prices.price_list import CREDITS_PER_DOLLAR
from app.platform.pagination import MAX_PAGE
from app.simulator.script import in_turn
from app.usage.records import TokenUsage
from tests.e2e.stories import World, WorldOf, a_client, a_request
from tests.factories import scripted
from tests.scripted import WriteMessage

HOLDS = ("reservation", "release")


async def world_with_credit(world_of: WorldOf) -> World:
    """A world of a prepaid account that was charged twice, after a grant and before an adjustment."""
    usage = TokenUsage(input_tokens=1000, output_tokens=100)
    world = await world_of(in_turn(), executors=scripted(WriteMessage("hi", usage)))
    account, ledger = await world.account_id(), world.services.ledger
    await ledger.grant(account, 10 * CREDITS_PER_DOLLAR, note="in advance", reference="invoice-1")
    await ledger.change_mode(account, "prepaid")
    for run in ("one", "two"):
        assert (await world.http.post("/v1/runs/wait", json=a_request(runId=run))).json()["ok"]
    await ledger.adjust(account, -5, note="rounding")
    return world


async def listed(http: httpx.AsyncClient, **params: Any) -> list[dict[str, Any]]:
    """All entries, in pages of `limit`."""
    items: list[dict[str, Any]] = []
    while True:
        page = (await http.get("/v1/ledger", params=params)).raise_for_status().json()
        items += page["items"]
        if page["nextCursor"] is None:
            return items
        params["cursor"] = page["nextCursor"]


async def test_each_entry_has_the_balance_after_it(world_of: WorldOf) -> None:
    world = await world_with_credit(world_of)

    entries = await listed(world.http)

    receipts = {each["id"]: each for each in (await world.http.get("/v1/receipts")).json()["items"]}
    assert entries[0]["balanceAfter"] == (await world.http.get("/v1/balance")).json()["left"]
    balance = 0
    for entry in reversed(entries):
        balance += 0 if entry["kind"] in HOLDS else entry["credits"]
        assert entry["balanceAfter"] == balance
        assert Decimal(entry["balanceAfterUsd"]) == usd(balance)
        assert Decimal(entry["amountUsd"]) == usd(entry["credits"])
    debits = [entry for entry in entries if entry["kind"] == "debit"]
    assert {debit["receiptId"] for debit in debits} == receipts.keys()
    for debit in debits:
        receipt = receipts[debit["receiptId"]]
        assert debit["credits"] == -receipt["chargedCredits"]
        assert (debit["runId"], debit["usedAt"]) == (receipt["runId"], receipt["usedAt"])
    assert (entries[0]["kind"], entries[0]["note"]) == ("adjustment", "rounding")
    assert (entries[-1]["kind"], entries[-1]["note"], entries[-1]["reference"]) == (
        *("grant", "in advance", "invoice-1"),
    )
    assert {entry["kind"] for entry in entries} == {"grant", "adjustment", "debit", *HOLDS}


async def test_pages_go_on_while_entries_are_added(world_of: WorldOf) -> None:
    world = await world_with_credit(world_of)
    before = await listed(world.http)
    newest = (await world.http.get("/v1/ledger", params={"limit": 1})).json()

    await world.services.ledger.grant(await world.account_id(), 7)
    rest = await listed(world.http, limit=2, cursor=newest["nextCursor"])

    assert [*newest["items"], *rest] == before
    refused = await world.http.get("/v1/ledger", params={"cursor": "1_2_3"})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "cursor")


async def test_the_csv_has_what_the_list_has(world_of: WorldOf) -> None:
    world = await world_with_credit(world_of)
    for number in range(MAX_PAGE):
        await world.services.ledger.grant(await world.account_id(), 1, note=f"=HYPERLINK({number})")

    answer = await world.http.get("/v1/ledger", params={"format": "csv"})

    rows = list(csv.DictReader(io.StringIO(answer.text)))
    entries = await listed(world.http, limit=MAX_PAGE)
    assert [row["id"] for row in rows] == [str(entry["id"]) for entry in entries]
    for row, entry in zip(rows, entries, strict=True):
        assert row["balanceAfterUsd"] == entry["balanceAfterUsd"]
    assert rows[0]["note"].startswith("'=")
    assert sum(Decimal(row["amountUsd"]) for row in rows if row["kind"] not in HOLDS) == Decimal(
        rows[0]["balanceAfterUsd"]
    )


async def test_only_an_admin_reads_the_ledger_of_another_account(world_of: WorldOf) -> None:
    world = await world_with_credit(world_of)
    accounts, account_id = world.services.accounts, await world.account_id()
    name = (await accounts.find_names({account_id}))[account_id]
    await accounts.create_account("other")
    _, key = await accounts.create_key("other", ("receipts:read", "keys:write"))
    _, admins = await accounts.create_key("other", ("receipts:read", "admin"))

    async with a_client(world.url, key) as http:
        assert await listed(http) == await listed(http, account="other") == []
        foreign = await http.get("/v1/ledger", params={"account": name})
        cursor = (await world.http.get("/v1/ledger", params={"limit": 1})).json()["nextCursor"]
        assert await listed(http, cursor=cursor) == []
    async with a_client(world.url, admins) as http:
        assert await listed(http, account=name) == await listed(world.http)

    assert (foreign.status_code, foreign.json()["code"]) == (404, "account_not_found")
