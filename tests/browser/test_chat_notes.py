"""What the chat page shows beside an answer: its sources, and what runs usually cost."""

import re

import pytest
from playwright.async_api import expect

from app.simulator.script import HttpError, Reply, Text, in_turn
from tests.browser.site import ASSISTANT, Site, accessibility_problems, screenshot
from tests.browser.test_chat_page import ended, send
from tests.e2e.stories import a_client, a_request
from tests.web_pages import SNOW, a_search, cited

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_answer_has_its_sources(site: Site) -> None:
    hostile = cited("https://weather.example/<img src=x onerror=alert(1)>")
    site.model.script = in_turn(
        Reply([*a_search(), Text("It "), Text("snows.", citations=[cited(), cited()])]),
        Reply([Text("Still.", citations=[cited("javascript:alert(1)"), hostile, {"cited_text": "none"}])]),
    )
    async with site.visit(await site.key()) as page:
        await send(page, "Snow?", graph=ASSISTANT)
        await ended(page)
        await expect(page.locator(".answer")).to_contain_text("It snows.")
        await expect(page.get_by_text("web search")).to_be_visible()
        (source,) = await page.locator(".sources a").all()
        await expect(source).to_have_text("Snow")
        await expect(source).to_have_attribute("href", SNOW)
        await expect(source).to_have_attribute("rel", "noopener noreferrer nofollow")
        await expect(page.locator(".sources")).to_contain_text("weather.example")
        await screenshot(page, "chat-sources")
        assert await accessibility_problems(page) == []
        await send(page, "Still?")
        await ended(page, answers=2)
        await expect(page.locator(".sources")).to_have_count(1)
        await page.reload()
        await expect(page.locator(".answer")).to_have_count(2)
        await expect(page.locator(".sources a")).to_have_attribute("href", SNOW)


async def test_what_a_run_usually_costs_is_shown_beside_send(site: Site) -> None:
    site.model.script = in_turn(Reply([Text("Hello.")]))
    key = await site.key()
    async with a_client(site.world.url, key.secret) as http:
        (await http.post("/v1/runs/wait", json=a_request(graphId=ASSISTANT))).raise_for_status()
    async with site.visit(key) as page:
        await page.get_by_label("Graph").select_option(ASSISTANT)
        await expect(page.get_by_text(re.compile(r"usually \$0\.0.*, [0-9]+ s"))).to_be_visible()


async def test_a_call_that_is_made_again_is_said(site: Site) -> None:
    overloaded = HttpError(529, "overloaded_error", headers={"retry-after": "600"})
    site.model.script = in_turn(Reply([Text("Hello.")]), overloaded)
    async with site.visit(await site.key()) as page:
        answer = page.get_by_role("status").filter(has_text="Answer: Hello.")
        await send(page, "Hello?", graph=ASSISTANT)
        await expect(answer).to_be_attached()
        await send(page, "Hello?")
        said = re.compile(r"provider did not answer\. Retry 1 begins in [0-9]+ s\.")
        await expect(page.get_by_role("status").filter(has_text=said)).to_be_visible()
        # So that the same answer is announced again.
        await expect(answer).to_have_count(0)
        await page.get_by_role("button", name="Stop").click()
        await ended(page, answers=2)


async def test_a_warning_names_what_it_is_about(site: Site) -> None:
    site.model.script = in_turn(Reply([Text("Hello.")]))
    tools = [{"name": "confirm", "description": "Asks.", "inputSchema": {"type": "object"}}]
    key = await site.key()
    async with a_client(site.world.url, key.secret) as http:
        run = a_request(graphId=ASSISTANT, clientTools=tools)
        ended_run = (await http.post("/v1/runs/wait", json=run)).json()
    async with site.visit(key, path=f"/billing?run={ended_run['runId']}") as page:
        await expect(
            page.get_by_text("The model is not offered these tools of the client: confirm")
        ).to_be_visible()
