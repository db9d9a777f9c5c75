"""Names of any length and script in the console: nothing leaves the page, no name moves what is beside it."""

import pytest
from playwright.async_api import expect

from app.requests.principal import SCOPES
from app.simulator.script import Reply, Text, in_turn
from tests.browser.site import ASSISTANT, DESKTOP, PHONE, Site, looks_well, resize
from tests.e2e.stories import a_client, a_request

pytestmark = pytest.mark.asyncio(loop_scope="session")

REVERSES = "\u202eresu"
LONG = "e" * 120


async def test_long_names_stay_in_their_place(site: Site) -> None:
    key = await site.key()
    budget = {"scope": "endUser", "match": LONG, "usd": "1", "window": "month", "mode": "soft"}
    async with a_client(site.world.url, key.secret) as http:
        (await http.put("/v1/budgets/one", json=budget)).raise_for_status()
        named = {"name": LONG[:100], "scopes": ["runs:read"]}
        (await http.post(f"/v1/accounts/{key.account}/keys", json=named)).raise_for_status()
    async with site.visit(key, path="/console?view=budgets") as page:
        await expect(page.get_by_role("meter", name=LONG)).to_be_visible()
        await looks_well(page, "console-long-names", (DESKTOP, False), (PHONE, True))
        await resize(page, DESKTOP)
        await page.goto("/console?view=keys")
        # Reached without scrolling the table.
        await expect(page.get_by_role("button", name="Revoke").first).to_be_in_viewport()
    name = f"{key.account}-{LONG[:40]}"
    operator = await site.key("admin", "keys:write", "receipts:read")
    async with a_client(site.world.url, operator.secret) as http:
        (await http.post("/v1/accounts", json={"name": name})).raise_for_status()
        granted = await http.post(f"/v1/accounts/{name}/grants", json={"usd": "1", "note": LONG})
        granted.raise_for_status()
    async with site.visit(operator, path=f"/console?view=accounts&account={name}") as page:
        await expect(page.get_by_role("region", name="Changes of credit").get_by_text(LONG)).to_be_visible()
        await looks_well(page, "console-long-account", (DESKTOP, False), (PHONE, True))


async def test_no_name_reverses_what_is_beside_it(site: Site) -> None:
    site.model.script = in_turn(Reply([Text("Yes.")]))
    key = await site.key()
    async with a_client(site.world.url, key.secret) as http:
        run = a_request(graphId=ASSISTANT, endUser=REVERSES, tags={"team": "search"})
        (await http.post("/v1/runs/wait", json=run)).raise_for_status()
    async with site.visit(key, path="/console") as page:
        ends = [await page.get_by_text(text).last.bounding_box() for text in (REVERSES, "team:search")]
    assert ends[0] is not None
    assert ends[1] is not None
    assert ends[0]["x"] < ends[1]["x"]


async def test_a_key_may_have_every_scope(site: Site) -> None:
    async with site.visit(await site.key("admin", "keys:write"), path="/console?view=keys") as page:
        await page.get_by_role("button", name="Create a key").click()
        offered = page.get_by_role("group", name="It may").get_by_role("checkbox")
        await expect(offered).to_have_count(len(SCOPES))
