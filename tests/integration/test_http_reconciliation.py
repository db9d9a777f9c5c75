"""Reconciliations over HTTP: what accounts and operators see."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio

from app.auth.records import KeyRecord
from app.billing.prices.model_price import OperatorPrice
from app.billing.prices.price_list import PriceList
from app.billing.reconciliation.records import DAY as ONE_DAY
from app.billing.reconciliation.records import floor_to
from app.billing.reconciliation.statements.service import ReconciliationStatements
from app.ids import RunId, RunKey
from tests.e2e.stories import World, a_client
from tests.integration.bookkeeping import CHEAP, OTHER_KEY, SONNET, Bookkeeping, bookkeeping
from tests.integration.conftest import in_shared_world

pytestmark = in_shared_world


def text_of(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


DAY = floor_to(datetime.now(UTC), ONE_DAY) - 2 * ONE_DAY
NOON = DAY + timedelta(hours=12)
WINDOW = {"from": text_of(DAY), "to": text_of(DAY + ONE_DAY)}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def compared(world: World) -> KeyRecord:
    """A day with a doubled receipt, a foreign call and a wrong price; returns the key of its account."""
    key, _ = await world.services.accounts.create_key("acme", ["receipts:read"])
    prices = PriceList([OperatorPrice(SONNET, DAY, CHEAP)])
    async with bookkeeping(world.services.database, key, prices=prices) as books:
        await plant(books)
        await books.compared(DAY)
    return key


async def plant(books: Bookkeeping) -> None:
    await books.both(NOON)
    await books.charged(NOON)
    await books.both(NOON + timedelta(hours=1), run="another")
    await books.both(NOON + timedelta(hours=20))
    books.answered(NOON, api_key=OTHER_KEY)


@pytest_asyncio.fixture(loop_scope="module")
async def reader(world: World) -> AsyncIterator[httpx.AsyncClient]:
    _, secret = await world.services.accounts.create_key("acme", ["receipts:read"])
    async with a_client(world.url, secret) as client:
        yield client


async def get(client: httpx.AsyncClient, path: str = "", **params: Any) -> Any:
    response = await client.get(f"/v1/reconciliation{path}", params={**WINDOW, **params})
    return response.raise_for_status().json()


@pytest.mark.usefixtures("compared")
async def test_an_account_sees_what_is_confirmed_of_its_own_cost(reader: httpx.AsyncClient) -> None:
    found = await get(reader, to=text_of(DAY + 2 * ONE_DAY))

    assert found["comparedUntil"] == WINDOW["to"]
    assert found["account"] == {
        "costUsd": "0.0240000000",
        "confirmedUsd": "0.0060000000",
        "unconfirmedUsd": "0.0120000000",
        "pendingUsd": "0.0060000000",
    }
    (difference,) = found["differences"]
    assert (difference["cause"], difference["amountUsd"]) == ("doubled_receipt", "-0.0060000000")
    assert (difference["evidence"], found["organization"]) == ({}, None)


async def test_a_run_is_compared_by_its_own_receipts(world: World, compared: KeyRecord) -> None:
    statements = ReconciliationStatements(world.services.database)

    found = await statements.of_run(RunKey(compared.account_id, RunId("run-1")))
    other = await statements.of_run(RunKey(compared.account_id, RunId("another")))

    sums = (found.run.cost_usd, found.run.confirmed_usd, found.run.unconfirmed_usd, found.run.pending_usd)
    assert sums == tuple(map(Decimal, ("0.018", "0", "0.012", "0.006")))
    assert [(each.cause, each.evidence) for each in found.differences] == [("doubled_receipt", {})]
    assert (other.run.confirmed_usd, other.run.unconfirmed_usd) == (Decimal("0.006"), Decimal(0))
    assert (other.differences, other.compared_until) == ([], found.compared_until)


@pytest.mark.usefixtures("compared")
async def test_another_account_sees_nothing_of_it(world: World) -> None:
    _, secret = await world.services.accounts.create_key(f"tenant-{uuid4().hex}", ["receipts:read"])
    async with a_client(world.url, secret) as client:
        found = await get(client)
        refused = await client.get("/v1/reconciliation/differences")

    assert set(found["account"].values()) == {"0.0000000000"}
    assert (found["differences"], found["organization"]) == ([], None)
    assert refused.status_code == 403


@pytest.mark.usefixtures("compared")
async def test_an_operator_sees_everything(world: World) -> None:
    found = (await get(world.http))["organization"]

    total = found["total"]
    assert (total["recordedUsd"], total["reportedUsd"]) == ("0.0180000000", "0.0120000000")
    assert (total["residualUsd"], total["unexplainedUsd"]) == ("-0.0060000000", "-0.0060000000")
    assert (total["explainedUsd"], total["foreignUsd"], total["listedUsd"]) == (
        "0.0000000000",
        "0.0060000000",
        "0.0225000000",
    )
    assert [each["cause"] for each in found["unexplained"]] == ["doubled_receipt"]
    assert len(found["unexplained"][0]["evidence"]["equal_receipts"]) == 2
    (price,) = found["prices"]
    assert (price["kind"], price["tokens"], price["amountUsd"]) == ("input", 3000, "0.0045000000")
    assert (price["providerUnitUsd"], price["ownUnitUsd"], price["source"]) == (
        "0.000003",
        "0.0000015",
        "analytics",
    )


@pytest.mark.usefixtures("compared")
async def test_all_differences_are_listed_in_pages(world: World) -> None:
    first = await get(world.http, "/differences", limit=1)
    second = await get(world.http, "/differences", limit=1, cursor=first["nextCursor"])
    explained = await get(world.http, "/differences", explained=True)

    causes = sorted(page["items"][0]["cause"] for page in (first, second))
    assert causes == ["doubled_receipt", "foreign_key"]
    assert second["nextCursor"] is None
    assert [each["providerKeyId"] is not None for each in explained["items"]] == [True]


@pytest.mark.usefixtures("compared")
async def test_a_wrong_window_is_refused(reader: httpx.AsyncClient) -> None:
    response = await reader.get("/v1/reconciliation", params={"from": WINDOW["to"], "to": WINDOW["from"]})

    assert response.status_code == 422


@pytest.mark.usefixtures("compared")
async def test_operators_scrape_metrics(world: World, reader: httpx.AsyncClient) -> None:
    scraped = (await world.http.get("/metrics")).raise_for_status()

    assert scraped.headers["content-type"].startswith("text/plain")
    lines = scraped.text.splitlines()
    assert f'runtally_reconciliation_residual_usd{{model="{SONNET}"}} -0.006' in lines
    assert "runtally_reconciliation_unexplained_differences 1.0" in lines
    assert "runtally_reconciliation_wrong_prices 1.0" in lines
    assert "runtally_reconciliation_failed 0.0" in lines
    assert (await reader.get("/metrics")).status_code == 403
