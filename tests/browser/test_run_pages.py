"""The page of a run, and what is done with runs: again with changes, compared, found again."""

import json
import re
from itertools import product

import pytest
from playwright.async_api import Locator, Page, expect

from app.requests.principal import SCOPES
from app.simulator.script import Reply, Text, ToolUse
from tests.browser.site import (
    ASSISTANT,
    DESKTOP,
    PHONE,
    Key,
    Site,
    accessibility_problems,
    looks_well,
    screenshot,
)
from tests.e2e.stories import a_client, a_request

pytestmark = pytest.mark.asyncio(loop_scope="session")

WIDE = (1440, 900)
HOSTILE = "<img src=x onerror=\"document.body.innerHTML=''\">"


async def a_run(site: Site, key: Key, prompt: str = "Hello.", **fields: object) -> str:
    """A run that has called a tool and answered."""
    replies = iter([Reply([ToolUse("core__get_current_time", {})]), Reply([Text(f"{prompt} {HOSTILE}")])])
    site.model.script = lambda _: next(replies)
    async with a_client(site.world.url, key.secret) as http:
        answer = await http.post("/v1/runs/wait", json=a_request(prompt, graphId=ASSISTANT, **fields))
        assert answer.json()["ok"], answer.text
        run_id: str = answer.json()["runId"]
        return run_id


def dialog(page: Page) -> Locator:
    return page.get_by_role("dialog")


def row(page: Page, name: str) -> Locator:
    """A row of the comparison, by what it compares."""
    return page.get_by_role("row").filter(has=page.get_by_text(name, exact=True))


async def test_a_run_is_executed_again_with_another_message_and_compared(site: Site) -> None:
    key = await site.key()
    first = await a_run(site, key, metadata={"order": "7"}, tags={"team": "search"}, stateKey="chat-1")
    async with site.visit(key, path=f"/billing?run={first}", complaints=["status of 422"]) as page:
        await page.get_by_role("button", name="Run again…").click()
        await expect(dialog(page).get_by_label("Message")).to_have_value("Hello.")
        await dialog(page).get_by_label("Message").fill("Good evening.")
        assert await accessibility_problems(page) == []
        await screenshot(page, "run-again")
        await dialog(page).get_by_role("button", name="Show it as JSON").click()
        request = json.loads(await dialog(page).get_by_label("Request").input_value())
        await dialog(page).get_by_label("Request").fill('{"graphId": 7')
        await dialog(page).get_by_role("button", name="Run again").click()
        await expect(dialog(page).get_by_role("alert")).to_have_text("Request is no JSON.")
        await dialog(page).get_by_role("button", name="Show a form").click()
        await expect(dialog(page)).to_contain_text("This is no JSON.")
        await dialog(page).get_by_label("Request").fill(json.dumps(request | {"toolIds": ["no__tool"]}))
        await dialog(page).get_by_role("button", name="Run again").click()
        await expect(dialog(page).get_by_role("alert").last).to_contain_text("toolIds")
        await dialog(page).get_by_label("Request").fill(json.dumps(request))
        await dialog(page).get_by_role("button", name="Show a form").click()
        await expect(dialog(page).get_by_label("Message")).to_have_value("Good evening.")
        site.model.script = lambda _: Reply([Text("Good evening to you.")])
        await dialog(page).get_by_role("button", name="Run again").click()
        await dialog(page).get_by_role("link", name="compare both").click()

        await expect(page.get_by_text("Good evening to you.")).to_be_visible()
        await expect(page.locator(".asked")).to_have_text(["Hello.", "Good evening."])
        await expect(row(page, "Status")).to_contain_text("succeeded")
        await expect(row(page, "Tools called")).to_contain_text("core__get_current_time")
        await expect(row(page, "Tools called")).to_contain_text("differs")
        await expect(row(page, "Steps")).to_contain_text("▼ 50% less")
        await expect(row(page, "Graph")).not_to_contain_text("differs")
        await expect(row(page, "Cost")).to_contain_text("$")
        address = page.url
        await page.get_by_role("link", name="Change sides").click()
        await expect(row(page, "Steps")).to_contain_text("▲ 100% more")
        assert page.url != address

        await page.goto(f"/billing?run={first}")
        await expect(page.get_by_text("Repeated by")).to_be_visible()
        second = re.search(r"b=([^&]+)", address)
        assert second is not None
        await page.get_by_role("link", name=second[1]).first.click()
        await expect(page.get_by_text("Repeats", exact=True)).to_be_visible()

    async with a_client(site.world.url, key.secret) as http:
        run = (await http.get(f"/v1/runs/{second[1]}")).json()
    assert (run["metadata"], run["tags"]) == ({"order": "7"}, {"team": "search", "repeats": first})
    assert run["stateKey"] is None
    assert request == {
        "graphId": ASSISTANT,
        "messages": [{"role": "user", "content": "Good evening."}],
        "metadata": {"order": "7"},
        "tags": {"team": "search", "repeats": first},
    }


async def test_two_runs_are_chosen_from_the_list_and_a_view_is_saved(site: Site) -> None:
    key = await site.key()
    first, second = await a_run(site, key, "One."), await a_run(site, key, "Two.", endUser="ann")
    async with site.visit(key, path="/console?view=runs&status=succeeded") as page:
        runs = page.get_by_role("region", name="Runs").locator("tbody tr")
        await page.get_by_role("button", name="Save this view").click()
        await dialog(page).get_by_label("Name").fill("What went well")
        await page.keyboard.press("Enter")
        await page.goto("/console?view=runs&endUser=ann")
        await expect(runs).to_have_count(1)
        await page.get_by_role("link", name="What went well").click()
        await expect(runs).to_have_count(2)
        await expect(page).to_have_url(re.compile("status=succeeded"))

        await runs.last.get_by_role("link", name="Compare").click()
        await expect(page.get_by_text("Choose the run that")).to_contain_text(first)
        await runs.first.get_by_role("link", name="Compare").click()
        await expect(page).to_have_url(re.compile(f"a={first}&b={second}"))
        await expect(row(page, "End user")).to_contain_text("differs")
        await expect(row(page, "Error")).to_have_count(0)

        await page.goto("/console?view=runs")
        await page.get_by_role("button", name="Forget What went well").click()
        await expect(page.get_by_role("link", name="What went well")).to_have_count(0)
        await page.get_by_label("Open by id").fill(second)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_contain_text(second)


async def test_a_run_shows_its_prompts_its_processes_and_what_the_provider_reports(site: Site) -> None:
    operator = await site.key(*SCOPES)
    run_id = await a_run(site, operator)
    async with site.visit(operator, path=f"/billing?run={run_id}") as page:
        await page.get_by_role("button", name="Show the prompts").click()
        prompts = page.locator("details.prompt")
        await expect(prompts).to_have_count(2)
        await prompts.first.locator("summary").click()
        await expect(prompts.first).to_contain_text("System prompt")
        await expect(prompts.first).to_contain_text("Hello.")
        await expect(page.get_by_role("region", name="Attempts").locator("tbody tr")).to_contain_text(
            "succeeded"
        )
        await expect(page.get_by_text("Nothing was ever compared.")).to_contain_text(
            "ANTHROPIC_ADMIN_API_KEY"
        )
        assert await accessibility_problems(page) == []


@pytest.mark.long
async def test_a_bill_is_read_on_a_phone_without_scrolling_sideways(site: Site) -> None:
    key = await site.key()
    run_id = await a_run(site, key)
    async with site.visit(key, path=f"/billing?run={run_id}", size=PHONE) as page:
        trace = page.get_by_role("region", name="Spans of this run")
        await expect(trace.get_by_role("rowheader").first).to_be_visible()
        assert await trace.evaluate("it => it.scrollWidth <= it.clientWidth")

        await page.goto("/billing")
        filters = page.get_by_role("group", name="Filters").first
        await expect(filters.get_by_label("End user")).to_be_attached()
        # Above what they filter, not a screen of their own.
        tops = await filters.locator(".field").evaluate_all(
            "them => them.map((it) => it.getBoundingClientRect().top)"
        )
        assert len(set(tops)) == 1


async def test_what_is_not_shown_of_a_run_says_why(site: Site) -> None:
    key = await site.key("runs:read", "receipts:read", "runs:write")
    run_id = await a_run(site, key)
    async with site.visit(key, path=f"/billing?run={run_id}") as page:
        await expect(page.get_by_text("only keys with the scope")).to_contain_text("runs:audit")
        await expect(page.get_by_text("Attempts and their processes")).to_have_count(0)
        async with a_client(site.world.url, key.secret) as http:
            (await http.delete(f"/v1/runs/{run_id}")).raise_for_status()
        await page.reload()
        await expect(page.get_by_text("Its request was deleted")).to_be_visible()
        await expect(page.get_by_text("They were deleted with the contents")).to_be_visible()
        await expect(page.get_by_role("button", name="Run again…")).to_have_count(0)


async def test_a_repeated_request_keeps_its_attachments(blank: Page) -> None:
    found = await blank.evaluate(_CHANGED)

    image = {"type": "image", "mediaType": "image/png", "data": "AA=="}
    assert found == [
        [{"type": "text", "text": "new"}, image],
        [image, {"type": "text", "text": "new"}],
        {"stateKey": "chat", "forkFrom": "first"},
        {"graphId": "g", "messages": [], "tags": {"repeats": "first"}},
    ]


_CHANGED = """async () => {
  const { changed, repeated } = await import("./assets/runs/again.js");
  const image = { type: "image", mediaType: "image/png", data: "AA==" };
  const of = (content) => ({ graphId: "g", messages: [{ role: "user", content }] });
  const parts = (content) => changed(of(content), { messages: "new" }, "first").messages[0].content;
  const { stateKey, forkFrom } = changed(of("old"), { messages: "new", stateKey: "chat" }, "first");
  const place = { runId: "first", startAfter: "2026-11-28T00:00:00Z", forkFrom: "r", stateKey: "chat" };
  const request = { graphId: "g", messages: [], ...place };
  return [
    parts([{ type: "text", text: "old" }, image]),
    parts([image]),
    { stateKey, forkFrom },
    repeated(request, { runId: "first", metadata: null }),
  ];
}"""


@pytest.mark.long
async def test_every_view_of_runs_fits_and_is_accessible(site: Site) -> None:
    operator = await site.key(*SCOPES)
    first, second = await a_run(site, operator, "One."), await a_run(site, operator, "Two.", endUser="ann")
    views = {
        "run": f"/billing?run={first}",
        "runs": f"/console?view=runs&a={first}",
        "compared": f"/console?view=runs&a={first}&b={second}",
        "server": "/console?view=server",
    }
    async with site.visit(operator) as page:
        for name, path in views.items():
            await page.goto(path)
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
            await expect(page.get_by_text("Loading")).to_have_count(0)
            await page.evaluate("window.scrollTo(0, 0)")
            for shape in product((WIDE, DESKTOP, PHONE), (False, True)):
                await looks_well(page, f"runs-{name}", shape)
                if name == "runs":
                    assert await page.locator(".scroll-x").evaluate("it => it.scrollWidth <= it.clientWidth")
