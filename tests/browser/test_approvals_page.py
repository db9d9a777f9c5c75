"""The page of what waits for an answer, and the same on the page of a run."""

import re
from typing import Any

import httpx
import pytest
from playwright.async_api import Page, expect

from app.simulator.script import ApiRequest, Reply, Text, ToolUse
from runtally import AsyncClient
from tests.browser.site import ASKER, MAILER, PHONE, THRIFTY, Site, accessibility_problems, screenshot
from tests.e2e.office import MAIL, office
from tests.e2e.stories import CLOCK, a_client, a_request

pytestmark = pytest.mark.asyncio(loop_scope="session")

WIDE = (1440, 900)
TO_BOB = {"to": "bob@example.org", "text": "<b>Hello</b> Bob"}
COLOR: dict[str, Any] = {
    "question": "Which <b>color</b>?",
    "header": "Color",
    "multiSelect": False,
    "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
}


def respond(request: ApiRequest) -> Reply:
    """Runs that ask for a decision, or ask a question, then end."""
    if request.tool_results:
        return Reply([Text("So be it.")])
    if request.last_text == "Time?":
        return Reply([ToolUse(CLOCK)], final_usage={"output_tokens": 1_000})
    if request.last_text == "Paint":
        return Reply([ToolUse("AskUserQuestion", {"questions": [COLOR]})])
    return Reply([ToolUse(MAIL, TO_BOB)])


async def started(http: httpx.AsyncClient, text: str, graph: str, **fields: Any) -> str:
    answer = await http.post("/v1/runs", json=a_request(text, graphId=graph, **fields))
    return str(answer.raise_for_status().json()["runId"])


async def waits(page: Page, counts: str) -> None:
    """Wait until the list says so."""
    await expect(page.get_by_role("heading", level=2)).to_have_text(counts)


async def test_what_waits_is_listed_live_and_answered_in_place(site: Site) -> None:
    site.model.script = respond
    key = await site.key()
    async with (
        site.visit(key, path="/approvals", size=WIDE, complaints=["status of 422"]) as page,
        a_client(site.world.url, key.secret) as http,
    ):
        await waits(page, "Nothing waits")
        chat = await started(http, "Write", MAILER, stateKey="chat-1")
        await waits(page, "1 approval")
        await started(http, "Paint", ASKER)
        await waits(page, "1 approval, 1 question")
        await expect(page).to_have_title(re.compile(r"^\(2\) Approvals"))
        await expect(page.locator(".waits b")).to_have_count(0)
        await screenshot(page, "approvals")
        assert await accessibility_problems(page) == []

        await page.get_by_role("button", name="Change the arguments").click()
        await page.get_by_role("button", name="As JSON").click()
        arguments = page.get_by_label("Arguments, as JSON")
        await arguments.fill('{"to": "nowhere", "text": "Hello"}')
        await page.get_by_role("button", name="Allow", exact=True).click()
        await expect(page.get_by_role("alert")).to_contain_text("to: ")
        await arguments.fill('{"to": "alice@example.org", "text": "Hello Alice"}')
        await page.get_by_role("button", name="Allow for this conversation").click()
        await expect(page.get_by_text("Allowed: send mail.")).to_be_visible()
        await waits(page, "1 question")
        await expect(page.get_by_role("heading", level=2)).to_be_focused()
        await page.get_by_role("radio", name="Blue").check()
        await page.get_by_role("button", name="Answer", exact=True).click()
        await waits(page, "Nothing waits")

        denied = await started(http, "Write", MAILER, stateKey="chat-2")
        await page.get_by_label("Reason for a denial").fill("Once is enough.")
        await page.get_by_role("button", name="Deny").click()
        await expect(page.get_by_text("Denied: send mail.")).to_be_visible()
        await waits(page, "Nothing waits")
        async with AsyncClient(site.world.url, key.secret) as client:
            for run_id in (chat, denied):
                await client.wait(run_id)

    assert office().sent == [("alice@example.org", "Hello Alice")]
    answers = [
        str(result["content"]) for each in site.world.simulator.requests for result in each.tool_results
    ]
    assert any('"Which <b>color</b>?"="Blue"' in answer for answer in answers)
    assert any("Once is enough." in answer for answer in answers)


async def test_filters_are_in_the_address_and_the_keyboard_is_enough_on_a_phone(site: Site) -> None:
    site.model.script = respond
    key = await site.key()
    async with a_client(site.world.url, key.secret) as http:
        await started(http, "Paint", ASKER)
        mail = await started(http, "Write", MAILER, stateKey="chat-3")
        async with site.visit(key, path=f"/approvals?runId={mail}", size=PHONE) as page:
            await waits(page, "1 approval")
            width = await page.evaluate("document.documentElement.scrollWidth")
            await screenshot(page, "approvals-phone")
            assert await accessibility_problems(page) == []
            await page.get_by_label("Kind").select_option("question")
            await expect(page.locator(".waits > li")).to_have_count(0)
            assert page.url.endswith(f"kind=question&runId={mail}")
            await page.get_by_label("Run", exact=True).fill("")
            await page.get_by_label("Run", exact=True).press("Enter")
            await expect(page.get_by_role("radio", name="Red")).to_be_visible()
            await page.get_by_role("radio", name="Red").focus()
            await page.keyboard.press("Space")
            await page.keyboard.press("Enter")
            await expect(page.get_by_text("Answered.")).to_be_visible()
            await http.post(f"/v1/runs/{mail}/cancel")

    assert width == PHONE[0]


async def test_a_question_is_answered_on_the_page_of_its_run(site: Site) -> None:
    site.model.script = respond
    key = await site.key()
    async with a_client(site.world.url, key.secret) as http:
        run_id = await started(http, "Paint", ASKER)
        async with site.visit(key, path=f"/billing?run={run_id}") as page:
            await page.get_by_role("radio", name="Red").check()
            await screenshot(page, "run-question")
            await page.get_by_role("button", name="Answer", exact=True).click()
            await expect(page.get_by_text("Answered.")).to_be_visible()
            await expect(page.get_by_text("Succeeded (stop)")).to_be_visible()


async def test_a_budget_that_is_reached_is_raised_or_the_run_ends(site: Site) -> None:
    site.model.script = respond
    key = await site.key()
    limits = {"maxBudgetUsd": "0.001"}
    async with (
        a_client(site.world.url, key.secret) as http,
        AsyncClient(site.world.url, key.secret) as client,
    ):
        raised = await started(http, "Time?", THRIFTY, limits=limits)
        async with site.visit(
            key, path="/approvals?kind=budget", size=PHONE, complaints=["status of 422"]
        ) as page:
            await waits(page, "1 budget")
            await expect(
                page.get_by_text(re.compile(r"It has spent \$0\.\d+, and may spend \$0\.001"))
            ).to_be_visible()
            await screenshot(page, "approvals-budget")
            assert await accessibility_problems(page) == []
            limit = page.get_by_label("New limit of the run, in dollars")
            await limit.fill("0.001")
            await page.get_by_role("button", name="Raise the limit").click()
            await expect(page.get_by_role("alert")).to_contain_text("must be more than the run has spent")
            await limit.fill("5")
            await limit.press("Enter")
            await expect(page.get_by_text("The limit is raised.")).to_be_visible()
            ended = await started(http, "Time?", THRIFTY, limits=limits)
            await page.get_by_role("button", name="End the run").click()
            await expect(page.get_by_text("The run ends.")).to_be_visible()
        finals = [await client.wait(run_id) for run_id in (raised, ended)]

    assert [final.ok for final in finals] == [True, False]


async def test_a_key_without_the_scopes_sees_no_forms(site: Site) -> None:
    site.model.script = respond
    reader, writer = await site.key("runs:read", "runs:write"), await site.key("runs:write")
    async with a_client(site.world.url, reader.secret) as http:
        mail = await started(http, "Write", MAILER)
        async with site.visit(reader, path="/approvals") as page:
            await expect(page.get_by_text("which your API key may not make")).to_be_visible()
            await expect(page.get_by_role("button", name="Allow")).to_have_count(0)
        await http.post(f"/v1/runs/{mail}/cancel")
    async with site.visit(writer, path="/approvals") as page:
        await expect(page.get_by_text("lacks the scope")).to_be_visible()
