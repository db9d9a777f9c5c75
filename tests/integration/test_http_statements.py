"""Statements over HTTP."""

import io
import json
from datetime import UTC, datetime

from pypdf import PdfReader

from app.billing.credit.ledger import usd
from app.billing.credit.records import month_of
from app.billing.statements.records import month_after, month_start
from app.billing.statements.service import SETTLED_AFTER, StatementMaker
from app.platform.clock.clock import Clock
from app.simulator.script import in_turn
from app.usage.records import TokenUsage
from tests.e2e.stories import World, WorldOf, a_client, a_request
from tests.factories import scripted
from tests.scripted import WriteMessage

MONTH = month_of(datetime.now(UTC))
NEXT = month_after(MONTH)


async def world_with_statements(world_of: WorldOf) -> World:
    """A world with a charged run, and the statements of this month and the next one."""
    usage = TokenUsage(input_tokens=1000, output_tokens=100)
    world = await world_of(in_turn(), executors=scripted(WriteMessage("hi", usage)))
    await world.services.ledger.grant(await world.account_id(), 1_000_000)
    assert (await world.http.post("/v1/runs/wait", json=a_request())).json()["ok"]
    due = month_start(month_after(NEXT)) + SETTLED_AFTER
    services = world.services
    await StatementMaker(services.database, services.chain, Clock(host=lambda: due)).make_due()
    return world


async def test_statements_are_listed_and_shown(world_of: WorldOf) -> None:
    world = await world_with_statements(world_of)

    newest = (await world.http.get("/v1/statements", params={"limit": 1})).json()
    rest = (await world.http.get("/v1/statements", params={"cursor": newest["nextCursor"]})).json()
    shown = (await world.http.get(f"/v1/statements/{MONTH}")).json()
    missing = await world.http.get(f"/v1/statements/{month_after(NEXT)}")
    refused = await world.http.get("/v1/statements/2026-13")

    assert [item["month"] for item in newest["items"] + rest["items"]] == [NEXT, MONTH]
    assert rest["nextCursor"] is None
    assert (shown["opening"], shown["grants"], shown["charges"]) == (0, 1_000_000, -30_000)
    assert (shown["closing"], shown["closingUsd"]) == (970_000, "0.0970000000")
    assert json.loads(shown["content"])["closing"] == shown["closing"]
    assert (shown["key"], shown["signature"]) == (None, None)
    assert (missing.status_code, missing.json()["code"]) == (404, "statement_not_found")
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "month")


async def test_a_statement_as_pdf_has_the_same_numbers(world_of: WorldOf) -> None:
    world = await world_with_statements(world_of)
    stated = (await world.http.get(f"/v1/statements/{MONTH}")).json()

    by_format = await world.http.get(f"/v1/statements/{MONTH}", params={"format": "pdf"})
    by_accept = await world.http.get(f"/v1/statements/{MONTH}", headers={"Accept": "application/pdf"})

    assert by_format.headers["Content-Type"] == "application/pdf"
    assert by_format.content == by_accept.content
    shown = "\n".join(page.extract_text() for page in PdfReader(io.BytesIO(by_format.content)).pages)
    amounts = [stated[name] for name in ("opening", "grants", "adjustments", "charges", "closing")]
    parts = [*stated["byModel"], *stated["byGraph"], *stated["byKey"]]
    for credits_ in (*amounts, *(part["credits"] for part in parts)):
        assert f"{usd(credits_):.7f}" in shown
    for name in (part["name"] for part in parts):
        assert f"{name}: 1 messages" in shown
    assert json.loads(stated["content"])["chain_hash"] in shown


async def test_only_an_admin_reads_statements_of_another_account(world_of: WorldOf) -> None:
    world = await world_with_statements(world_of)
    accounts, account_id = world.services.accounts, await world.account_id()
    name = (await accounts.find_names({account_id}))[account_id]
    await accounts.create_account("other")
    _, key = await accounts.create_key("other", ("receipts:read",))
    _, admins = await accounts.create_key("other", ("receipts:read", "admin"))
    own = (await world.http.get(f"/v1/statements/{MONTH}")).json()

    async with a_client(world.url, key) as http:
        assert (await http.get("/v1/statements")).json()["items"] == []
        for path, params in (
            (f"/v1/statements/{MONTH}", {}),
            (f"/v1/statements/{MONTH}", {"account": name}),
            ("/v1/statements", {"account": name}),
        ):
            assert (await http.get(path, params=params)).status_code == 404
    async with a_client(world.url, admins) as http:
        shown = await http.get(f"/v1/statements/{MONTH}", params={"account": name})
        assert shown.json() == own
