"""Which agent the chat page talks to: what it can do, what to begin with, its model and effort, drafts."""

import asyncio
import itertools
import json
import re

import pytest
from playwright.async_api import Page, Route, expect

from app.simulator.script import Hold, Reply, Text, in_turn
from tests.browser.site import ASSISTANT, MAILER, PHONE, Site, accessibility_problems, looks_well, screenshot
from tests.browser.test_chat_page import ended, send
from tests.e2e.stories import a_client

pytestmark = pytest.mark.asyncio(loop_scope="session")

WIDE = (1440, 900)
REFUSAL = "Write a polite refusal"


async def option_of(page: Page, graph: str) -> str:
    """What the choice of agents shows for a graph."""
    return " ".join((await page.locator(f"option[value='{graph}']").inner_text()).split())


async def test_an_agent_is_shown_by_what_people_know_of_it(site: Site) -> None:
    async with site.visit(await site.key()) as page:
        # What may cost least is offered first, and what has tools is begun with.
        await expect(page.get_by_role("heading", name="💬 Assistant · Agent SDK")).to_be_visible()
        options = page.locator(".composer-graph option")
        offered = await options.evaluate_all("them => them.map((it) => it.value)")
        places = [offered.index(f"claude_agents:{name}") for name in ("summarizer", "assistant", "analyst")]
        assert places == sorted(places)

        await page.get_by_label("Graph").select_option(ASSISTANT)
        heading = page.get_by_role("heading", name="💬 Assistant · Messages API")
        await expect(heading).to_have_attribute("title", ASSISTANT)
        await expect(page.get_by_role("list", name="It can:")).to_have_text("get current time")
        await expect(page.get_by_role("list", name="Suggestions").get_by_role("button")).to_have_count(3)
        assert await option_of(page, ASSISTANT) == "💬 Assistant · Messages API"
        assert await option_of(page, MAILER) == "Mailer · Messages API"
        assert "messages:" not in await page.locator("main").inner_text()
        await page.locator(".composer-options summary").click()
        await looks_well(page, "chat-agent", *itertools.product((WIDE, PHONE), (False, True)))


async def test_a_suggestion_is_put_into_the_field_and_sent_by_the_person(site: Site) -> None:
    site.model.script = in_turn(Reply([Text("Dear all, sorry.")]))
    async with site.visit(await site.key()) as page:
        await page.get_by_label("Graph").select_option(ASSISTANT)
        await page.get_by_role("button", name=REFUSAL).click()
        field = page.get_by_role("textbox", name="Message")
        await expect(field).to_be_focused()
        await expect(field).to_have_value(re.compile("^Write a short, friendly mail that declines"))
        await page.keyboard.press("Enter")
        await ended(page)
        await expect(page.get_by_role("button", name=REFUSAL)).to_have_count(0)


async def test_the_model_and_the_effort_are_chosen_for_the_runs_of_an_agent(site: Site) -> None:
    site.model.script = in_turn(Reply([Text("Hello.")]))
    key = await site.key()
    async with site.visit(key) as page, a_client(site.world.url, key.secret) as http:
        await page.get_by_label("Graph").select_option(ASSISTANT)
        await page.locator(".composer-options summary").click()
        await page.get_by_label("Model").select_option("claude-opus-5-5")
        await page.get_by_label("Effort").select_option("low")
        await expect(page.locator(".composer-options summary")).to_have_text("opus · low")
        await send(page, "hello")
        await ended(page)
        (run,) = (await http.get("/v1/runs")).json()["items"]

    assert run["model"] == "claude-opus-5-5"
    assert site.world.simulator.requests[-1].body["output_config"] == {"effort": "low"}


async def test_a_draft_stays_with_its_conversation_until_it_is_sent_or_the_person_leaves(site: Site) -> None:
    site.model.script = in_turn(Reply([Text("One.")]))
    async with site.visit(await site.key()) as page:
        field = page.get_by_role("textbox", name="Message")
        await send(page, "first", graph=ASSISTANT)
        await ended(page)
        await field.fill("for the first")
        await page.get_by_role("link", name="New conversation").click()
        await expect(field).to_have_value("")
        await field.fill("for the new one")
        await page.get_by_role("navigation", name="Conversations").get_by_role("link", name="first").click()
        await expect(field).to_have_value("for the first")
        await page.reload()
        await expect(field).to_have_value("for the first")
        await page.get_by_role("link", name="New conversation").click()
        await expect(field).to_have_value("for the new one")
        await page.locator(".who summary").click()
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_label("API key")).to_be_visible()
        assert await page.evaluate("sessionStorage.length") == 0


async def test_a_message_that_was_not_sent_is_a_draft_again(site: Site) -> None:
    async with site.visit(await site.key(), complaints=["status of 503"]) as page:
        problem = {"title": "T", "status": 503, "code": "overloaded", "detail": "It is overloaded."}

        async def refuse(route: Route) -> None:
            await route.fulfill(status=503, content_type="application/problem+json", body=json.dumps(problem))

        await page.route("**/v1/runs", refuse)
        await send(page, "hello", graph=ASSISTANT)
        await expect(page.get_by_role("alert")).to_be_visible()
        await expect(page.get_by_role("textbox", name="Message")).to_have_value("hello")
        await page.reload()
        await expect(page.get_by_role("textbox", name="Message")).to_have_value("hello")


async def test_lines_take_the_place_of_what_is_loaded_and_a_run_shows_its_time(site: Site) -> None:
    hold = Hold(index=6)
    site.model.script = in_turn(Reply([Text("Both of you are heard now")], hold=hold))
    async with site.visit(await site.key()) as page:
        await page.clock.install()
        await send(page, "go", graph=ASSISTANT)
        await hold.reached.wait()
        await expect(page.get_by_text(re.compile(r"Step 1 · \d+ s"))).to_be_visible()
        await page.clock.fast_forward(36_000_000)
        await expect(page.get_by_text(re.compile(r"· 36,\d\d\d s"))).to_be_visible()
        hold.until.set()
        await ended(page)

        may_answer = asyncio.Event()

        async def keep_waiting(route: Route) -> None:
            await may_answer.wait()
            await route.continue_()

        await page.route("**/v1/sessions/*", keep_waiting)
        await page.reload()
        conversation = page.get_by_role("region", name="Conversation")
        await expect(conversation.get_by_text("Loading…")).to_be_attached()
        await screenshot(page, "chat-loading")
        assert await accessibility_problems(page) == []
        may_answer.set()
        await expect(page.get_by_text("Both of you are heard now").first).to_be_visible()
