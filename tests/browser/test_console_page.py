"""The console in a browser."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from playwright.async_api import Locator, Page, expect

from app.requests.principal import SCOPES
from app.simulator.script import Reply, Text, ToolUse
from tests.browser.site import ASSISTANT, DESKTOP, MAILER, PHONE, Key, Site, looks_well, screenshot
from tests.e2e.office import MAIL
from tests.e2e.stories import a_client, a_request

pytestmark = pytest.mark.asyncio(loop_scope="session")

WIDE = (1440, 900)
CHANGING = ":not(:disabled, [href], [aria-label='Saved views'] *)"  # What a browser keeps is no change.
HOSTILE = "<img src=x onerror=\"document.body.innerHTML=''\">\u202e{{7*7}}"
VIEWS = (
    *("runs", "schedules", "webhooks", "end-users", "accounts", "keys", "audit", "budgets", "credit"),
    *("statements", "graphs", "tools", "models", "server"),
)


def rows(page: Page, name: str) -> Locator:
    """The rows of a table."""
    return page.get_by_role("region", name=name).locator("tbody tr")


def dialog(page: Page) -> Locator:
    return page.get_by_role("dialog")


async def act(
    page: Page, button: str, values: Mapping[str, str] | None = None, *, submit: str | None = None
) -> None:
    """Open a dialog, fill in fields by their labels, and do what it is for."""
    await expect(page.locator(".waiting")).to_have_count(0)  # What loads above a button moves it.
    await page.get_by_role("button", name=button).first.click()
    for label, value in (values or {}).items():
        await dialog(page).get_by_label(label, exact=True).fill(value)
    await dialog(page).get_by_role("button", name=submit or button, exact=True).click()


async def done(page: Page) -> None:
    """Close a dialog that shows an answer."""
    await dialog(page).get_by_role("button", name="Done").click()


async def an_operator(site: Site) -> Key:
    return await site.key(*SCOPES)


async def a_run(site: Site, secret: str, prompt: str = "Hello.", **fields: object) -> str:
    """A run that has ended, by the API."""
    site.model.script = lambda _: Reply([Text("Good morning.")])
    async with a_client(site.world.url, secret) as http:
        answer = await http.post("/v1/runs/wait", json=a_request(prompt, graphId=ASSISTANT, **fields))
        assert answer.json()["ok"], answer.text
        run_id: str = answer.json()["runId"]
        return run_id


async def test_an_account_and_a_key_are_made_and_used(site: Site) -> None:
    operator = await an_operator(site)
    async with site.visit(operator, path="/console?view=accounts", complaints=["status of 422"]) as page:
        await act(page, "Create an account", {"Name": "not a name"}, submit="Create")
        await expect(dialog(page).get_by_role("alert")).to_contain_text("Name")
        await dialog(page).get_by_label("Name").fill("made-here")
        await page.keyboard.press("Enter")
        await expect(dialog(page)).to_have_count(0)
        await expect(page.get_by_role("button", name="Create an account")).to_be_focused()
        await rows(page, "Accounts").filter(has_text="made-here").get_by_role("link", name="Keys").click()

        await expect(page.get_by_text("The account made-here has no keys.")).to_be_visible()
        await page.get_by_role("button", name="Create a key").click()
        await dialog(page).get_by_label("Name", exact=True).fill("nightly")
        await dialog(page).get_by_label("receipts:read").check()
        await dialog(page).get_by_label("Only these graphs").fill("messages:*")
        await dialog(page).get_by_label("Requests a minute").fill("600")
        await dialog(page).get_by_label("Tags of its runs").fill("team=search")
        await looks_well(page, "console-create-a-key", (DESKTOP, False))
        await dialog(page).get_by_role("button", name="Create").click()
        secret = await dialog(page).get_by_label("The key").input_value()
        copy, answer = dialog(page).get_by_role("button", name="Copy"), dialog(page).get_by_role("status")
        await copy.click()
        await expect(answer).to_have_text("Copy the selected text.")
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await copy.click()
        await expect(answer).to_have_text("Copied.")
        assert await page.evaluate("navigator.clipboard.readText()") == secret
        await page.context.clear_permissions()
        await screenshot(page, "console-key")
        await done(page)
        row = rows(page, "API keys").filter(has_text="nightly")
        await expect(row).to_contain_text("graphs messages:*; 600 requests a minute; labelled team=search")
        assert secret not in await page.content()

    async with a_client(site.world.url, secret) as http:
        listed = await http.get("/v1/graphs")
        assert {each["provider"] for each in listed.json()["items"]} == {"messages"}


async def test_a_key_is_rotated_and_revoked(site: Site) -> None:
    operator = await an_operator(site)
    async with site.visit(operator, path="/console?view=keys") as page:
        await act(page, "Create a key", {"Name": "nightly"}, submit="Create")
        await done(page)
        await act(page, "Rotate")
        secret = await dialog(page).get_by_label("The new key").input_value()
        await done(page)
        await expect(rows(page, "API keys")).to_have_count(3)
        await act(page, "Revoke", submit="Cancel")
        async with a_client(site.world.url, secret) as http:
            assert (await http.get("/v1/graphs")).status_code == 200
            await act(page, "Revoke", submit="Revoke the key")
            await expect(rows(page, "API keys").first).to_contain_text("revoked")
            assert (await http.get("/v1/graphs")).status_code == 401

        own = rows(page, "API keys").last
        await own.get_by_role("button", name="Revoke").click()
        await expect(dialog(page)).to_contain_text(
            "It cannot be made valid again. You are signed in with this"
        )
        await dialog(page).get_by_role("button", name="Cancel").click()
        await page.get_by_role("link", name="Audit log").click()
        await page.get_by_label("Action").fill("key.rotated")
        await page.keyboard.press("Enter")
        await expect(rows(page, "Audit log")).to_have_count(1)
        await expect(page).to_have_url(re.compile("action=key.rotated"))


async def test_an_account_is_granted_credit(site: Site) -> None:
    operator, tenant = await an_operator(site), await site.key()
    path = f"/console?view=accounts&account={tenant.account}"
    async with site.visit(operator, path=path, complaints=["status of 422"]) as page:
        entries = rows(page, "Changes of credit")
        await act(page, "Grant credit", {"Amount, in dollars": "-5"}, submit="Grant")
        await expect(dialog(page).get_by_role("alert")).to_contain_text("must be above zero")
        await dialog(page).get_by_label("Amount").fill("12.50")
        await dialog(page).get_by_label("Note").fill("Invoice 7")
        await dialog(page).get_by_role("button", name="Grant").click()
        await expect(entries.first).to_have_text(re.compile(r"grant\s*\$12\.500000.*Invoice 7"))
        await act(page, "Grant credit", {"Amount, in dollars": "1"}, submit="Grant")
        await expect(entries).to_have_count(2)
        corrected = {"Amount, in dollars": "-0.5", "Reason, which the account sees": "Twice"}
        await act(page, "Correct the credit", corrected, submit="Correct")
        await expect(entries.first).to_have_text(re.compile(r"adjustment\s*-\$0\.500000\s*\$13\.000000"))
        asked = {"Below, in dollars": "5", "How much is requested, in dollars": "50"}
        await act(page, "Request credit automatically", asked, submit="Save")
        await expect(page.get_by_text("$50.00 below $5.00, at most 1 a day")).to_be_visible()
        await act(page, "Stop automatic requests", submit="Stop them")
        await expect(page.get_by_role("button", name="Request credit automatically")).to_be_visible()


async def test_an_account_is_suspended_and_renamed(site: Site) -> None:
    operator, tenant = await an_operator(site), await site.key()
    path = f"/console?view=accounts&account={tenant.account}"
    async with (
        site.visit(operator, path=path) as page,
        a_client(site.world.url, tenant.secret) as http,
    ):
        await page.get_by_role("button", name="Suspend").click()
        await dialog(page).get_by_label("Also stop its runs").check()
        await dialog(page).get_by_role("button", name="Suspend").click()
        await expect(dialog(page)).to_contain_text("Runs that are being stopped: 0.")
        await done(page)
        await expect(page.get_by_text("suspended", exact=True)).to_be_visible()
        assert (await http.get("/v1/runs")).json()["code"] == "account_suspended"
        await act(page, "Resume")
        await expect(page.get_by_text("active", exact=True)).to_be_visible()
        assert (await http.get("/v1/runs")).status_code == 200

        await act(page, "Make it prepaid")
        await expect(page.get_by_role("button", name="Make it postpaid")).to_be_visible()
        await act(page, "Rename", {"New name": f"{tenant.account}.old"})
        await dialog(page).get_by_role("link", name=f"{tenant.account}.old").click()
        await expect(page.get_by_role("heading", name=f"{tenant.account}.old")).to_be_visible()


async def test_a_budget_that_is_reached_shows_its_bar(site: Site) -> None:
    key = await site.key()
    await a_run(site, key.secret)
    async with site.visit(key, path="/console?view=budgets", complaints=["status of 422"]) as page:
        await act(page, "Create a budget", {"Name": "month", "How much": "a lot"}, submit="Save")
        await expect(dialog(page).get_by_role("alert")).to_contain_text("usd")
        await dialog(page).get_by_label("How much").fill("0.0000001")
        await dialog(page).get_by_role("button", name="Save").click()
        bar = page.get_by_role("meter", name="Budget month")
        await expect(bar).to_have_attribute("aria-valuenow", "100")
        await expect(bar).to_have_class(re.compile("used-up"))
        now = datetime.now(UTC)
        following = datetime(now.year + now.month // 12, now.month % 12 + 1, 1, tzinfo=UTC)
        await expect(page.locator(".budgets")).to_contain_text(f"Resets{following:%Y-%m-%d}")
        await screenshot(page, "console-budget")
        async with a_client(site.world.url, key.secret) as http:
            refused = await http.post("/v1/runs", json=a_request("Hello.", graphId=ASSISTANT))
            assert refused.json()["code"] == "budget_reached"

            await page.get_by_role("button", name="Change").click()
            await expect(dialog(page).get_by_label("How much")).to_have_value("0.0000001")
            await dialog(page).get_by_role("button", name="Cancel").click()
            await act(page, "Change", {"How much": "5"}, submit="Save")
            await expect(bar).not_to_have_class(re.compile("used-up"))
            found = (await http.get("/v1/budgets/month")).json()
            assert Decimal(found["usd"]) == 5

            await act(page, "Delete", submit="Delete the budget")
            await expect(page.get_by_text("There is no budget")).to_be_visible()
            assert (await http.get("/v1/budgets/month")).status_code == 404


async def test_runs_are_filtered_live_and_linked(site: Site) -> None:
    key = await site.key()
    first = await a_run(site, key.secret, endUser="ann", tags={"team": "search"})
    path = "/console?view=runs&endUser=ann&tag=team%3Asearch"
    async with site.visit(key, path=path, size=WIDE) as page:
        await expect(rows(page, "Runs")).to_have_count(1)
        await expect(page.get_by_label("End user")).to_have_value("ann")
        await a_run(site, key.secret, endUser="bob")
        await a_run(site, key.secret, endUser="ann", tags={"team": "search"})
        await expect(rows(page, "Runs")).to_have_count(2)
        await screenshot(page, "console-runs")

        await page.get_by_label("Status").select_option("failed")
        await expect(page.get_by_text("No run matches.")).to_be_visible()
        await page.go_back()
        await expect(rows(page, "Runs")).to_have_count(2)
        for name in ("End user", "Tag"):
            await page.get_by_label(name).fill("")
            await page.keyboard.press("Enter")
            await expect(page.get_by_label(name)).to_be_focused()
        await page.get_by_label("API key").select_option(label="a browser's")
        await expect(rows(page, "Runs")).to_have_count(3)
        await rows(page, "Runs").last.get_by_role("link", name=first).first.click()
        await expect(page.get_by_role("heading", name=first)).to_be_visible()


async def test_who_may_only_read_sees_nothing_to_change(site: Site) -> None:
    viewer = await site.key("runs:read", "receipts:read")
    async with site.visit(viewer, path="/console") as page:
        parts = page.get_by_role("navigation", name="Parts of the console").get_by_role("link")
        await expect(parts.first).to_be_visible()
        names = await parts.all_inner_texts()
        assert "Budgets" in names
        assert not {"Accounts", "Audit log"} & set(names)
        for name in names:
            await parts.filter(has_text=re.compile(f"^{name}$")).click()
            await expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
            await expect(page.get_by_text("Loading")).to_have_count(0)
            await expect(page.locator(f"#main .button{CHANGING}")).to_have_count(0)
        await page.goto(f"/console?view=graphs&graph={ASSISTANT}")
        await expect(page.get_by_role("heading", name=ASSISTANT)).to_be_visible()
        await expect(page.locator("#main .button")).to_have_count(0)
        for view in ("accounts", "audit", "nonsense"):
            await page.goto(f"/console?view={view}")
            await expect(page.get_by_text("There is no such part of the console")).to_be_visible()


async def test_hostile_names_do_nothing(site: Site) -> None:
    key = await site.key()
    await a_run(site, key.secret, HOSTILE, endUser=HOSTILE, tags={"team": HOSTILE})
    async with a_client(site.world.url, key.secret) as http:
        await http.post(f"/v1/accounts/{key.account}/keys", json={"name": HOSTILE, "scopes": ["runs:read"]})
        webhook = {"url": "https://example.org/", "events": ["run.failed"], "description": HOSTILE}
        posted = await http.post("/v1/webhooks", json=webhook)
        assert posted.status_code == 201, posted.text
        await http.post(
            "/v1/schedules",
            json={
                "scheduleId": "hostile",
                "cron": "0 7 * * *",
                "run": {"graphId": ASSISTANT, "messages": [{"role": "user", "content": HOSTILE}]},
            },
        )
    async with site.visit(key, path="/console") as page:
        for view in ("runs", "keys", "webhooks", "schedules"):
            await page.goto(f"/console?view={view}")
            await expect(page.locator("#main table").get_by_text(HOSTILE).first).to_be_visible()
            assert await page.locator("#main img").count() == 0


async def test_a_schedule_is_made_started_and_deleted(site: Site) -> None:
    key = await site.key()
    site.model.script = lambda _: Reply([Text("Nothing.")])
    async with site.visit(key, path="/console?view=schedules", complaints=["status of 422"]) as page:
        await page.get_by_role("button", name="Create a schedule").click()
        await dialog(page).get_by_label("Name", exact=True).fill("morning")
        await dialog(page).get_by_label("Graph").select_option(ASSISTANT)
        await dialog(page).get_by_label("Question").fill("What is new?")
        await dialog(page).get_by_label("Cron").fill("every day")
        await dialog(page).get_by_role("button", name="Create").click()
        await expect(dialog(page).get_by_role("alert")).to_contain_text("Cron")
        await dialog(page).get_by_label("Cron").fill("0 7 * * *")
        await dialog(page).get_by_role("button", name="Create").click()
        await page.get_by_role("link", name="morning").click()
        await expect(page.get_by_text(re.compile(r"Next\d{4}-\d\d-\d\d 07:00:00"))).to_be_visible()
        await act(page, "Change the times", {"Cron expression": "30 8 * * *"}, submit="Save")
        await expect(page.get_by_text(re.compile(r"Next\d{4}-\d\d-\d\d 08:30:00"))).to_be_visible()
        await act(page, "Pause")
        await expect(page.get_by_text("paused", exact=True)).to_be_visible()
        await act(page, "Start now", submit="Start it")
        await expect(rows(page, "Due times").first).to_contain_text("started")
        await screenshot(page, "console-schedule")
        await act(page, "Delete", submit="Delete the schedule")
        await done(page)
        await expect(page.get_by_text("No run is started by a schedule.")).to_be_visible()


async def test_a_webhook_is_registered_its_deliveries_repeated_and_deleted(site: Site) -> None:
    key = await site.key()
    async with site.visit(key, path="/console?view=webhooks", complaints=["status of 422"]) as page:
        await act(page, "Register a webhook", {"URL": "http://10.0.0.1/"}, submit="Register")
        await expect(dialog(page).get_by_role("alert")).to_contain_text("URL")
        await dialog(page).get_by_label("URL").fill("https://receiver.invalid/hook")
        await dialog(page).get_by_role("button", name="Register").click()
        await expect(dialog(page).get_by_label("Its secret")).to_have_value(re.compile("^whsec_"))
        await done(page)
        await a_run(site, key.secret)
        await page.get_by_role("link", name="https://receiver.invalid/hook").click()
        delivery = rows(page, "Deliveries").first
        await expect(delivery).to_contain_text("name not found")
        await act(page, "Disable")
        await expect(page.get_by_text("disabled", exact=True)).to_be_visible()
        await expect(delivery).to_contain_text("cancelled")
        await act(page, "Enable")
        await expect(page.get_by_text("enabled", exact=True)).to_be_visible()
        await act(
            page, "Repeat what failed", {"Created from (UTC)": "2026-01-01T00:00"}, submit="Repeat them"
        )
        await expect(dialog(page)).to_contain_text("Deliveries that are sent again: 1.")
        await done(page)
        await expect(delivery).to_contain_text("pending")
        await act(page, "Delete", submit="Delete the webhook")
        await done(page)
        await expect(page.get_by_text("Nothing is sent anywhere.")).to_be_visible()


async def test_a_run_that_waits_is_cancelled(site: Site) -> None:
    key = await site.key()
    site.model.script = lambda _: Reply([ToolUse(MAIL, {"to": "bob@example.org", "text": "Hello."})])
    async with (
        site.visit(key, path="/console") as page,
        a_client(site.world.url, key.secret) as http,
    ):
        await http.post("/v1/runs", json=a_request("Write.", graphId=MAILER))
        await expect(page.get_by_role("button", name="Cancel")).to_be_visible()
        await act(page, "Cancel", submit="Cancel the run")
        await expect(rows(page, "Runs").first).to_contain_text("cancelled")


async def test_an_end_user_is_downloaded_and_erased(site: Site) -> None:
    key = await site.key()
    await a_run(site, key.secret, endUser="ann")
    async with site.visit(key, path="/console?view=end-users") as page:
        await page.get_by_label("End user").fill("ann")
        await page.keyboard.press("Enter")
        async with page.expect_download() as download:
            await page.get_by_role("link", name="Download all of it").click()
        assert (await (await download.value).path()).read_bytes().startswith(b"PK")
        await act(page, "Erase", submit="Erase the end user")
        await done(page)
        await page.get_by_role("link", name="Their runs").click()
        await expect(page.get_by_text("No run matches.")).to_be_visible()


async def test_a_preview_shows_who_decides_about_a_call(site: Site) -> None:
    key = await site.key()
    async with site.visit(key, path="/console?view=graphs&graph=messages:mailer") as page:
        await page.get_by_label("Question").fill("Write to Ann.")
        await page.get_by_role("button", name="Preview a run").click()
        await expect(page.get_by_text("Who decides about a call")).to_be_visible()
        await page.get_by_label("Tool").select_option("office__send_mail")
        await expect(rows(page, "Rules").first).to_contain_text("ask")
        await looks_well(page, "console-preview", (DESKTOP, False))


@pytest.mark.long
async def test_every_part_fits_and_is_accessible(site: Site) -> None:
    operator = await an_operator(site)
    await a_run(site, operator.secret, endUser="ann", tags={"team": "search"})
    async with site.visit(operator, path="/console") as page:
        for view in VIEWS:
            chosen = "&endUser=ann" if view in {"runs", "end-users"} else ""
            await page.goto(f"/console?view={view}{chosen}")
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
            await expect(page.get_by_text("Loading")).to_have_count(0)
            shapes = ((WIDE, False), (DESKTOP, True), (PHONE, False), (PHONE, True))
            await looks_well(page, f"console-{view}", *shapes)
